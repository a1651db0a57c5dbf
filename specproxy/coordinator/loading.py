"""What a coordinator answers while its model is being loaded: as llama-server does, "not yet"."""

from aiohttp import web

_NOT_YET = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}


def loading_app() -> web.Application:
    """503 on every route."""

    async def not_yet(_request: web.Request) -> web.Response:
        return web.json_response(_NOT_YET, status=503, headers={"Retry-After": "2"})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", not_yet)
    return app
