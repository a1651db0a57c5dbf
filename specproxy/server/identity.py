"""One id for each request, so that its log lines here and at the target can be found."""

import re
import uuid

from aiohttp import web

ID_HEADER = "x-request-id"
REQUEST_ID: "web.RequestKey[str]" = web.RequestKey("request_id", str)
_USABLE = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


def read_id(given: str | None) -> str:
    """The client's own id, if it is fit for a log; else a new one."""
    if given is not None and _USABLE.fullmatch(given):
        return given
    return uuid.uuid4().hex


async def name_answer(request: web.Request, response: web.StreamResponse) -> None:
    """Tell the client the id of its request, on the answer's head."""
    request_id = request.get(REQUEST_ID)
    if request_id is not None:
        response.headers[ID_HEADER] = request_id
