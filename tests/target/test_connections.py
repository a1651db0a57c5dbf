"""Connections to a target: who is gone is noticed, also where nobody says so."""

import asyncio
import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specproxy.settings import TargetSettings
from specproxy.target.connections import open_session


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="named otherwise here")
async def test_the_kernel_asks_silent_ones() -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_get("/", half)
    async with TestServer(app) as server:
        settings = TargetSettings(url=str(server.make_url("/")))
        async with open_session(settings) as session, session.get(server.make_url("/")) as response:
            assert response.connection is not None
            assert response.connection.transport is not None
            opened = response.connection.transport.get_extra_info("socket")
            assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            first_s, between_s, num_times = (
                opened.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            assert first_s + between_s * num_times <= 60
            response.close()
