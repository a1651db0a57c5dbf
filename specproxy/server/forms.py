"""Forms (multipart/form-data) that name a model, as those of audio do: read, never changed."""

from collections.abc import Iterator
from email.message import Message
from email.parser import BytesHeaderParser

MAX_PARTS = 1024
MAX_HEAD_BYTES = 8192
"""llama-server takes no form with more parts, or with a longer head of one."""


def is_form(content_type: str) -> bool:
    """Whether a body of this type is one."""
    return content_type.lower().startswith("multipart/form-data")


def model_of_form(content_type: str, raw: bytes) -> str | None:
    """What the field `model` says; None where there is none, or several, which are a list to
    llama-server. Takes time in proportion to `raw`, whatever is in it.

    Args:
        content_type: the request's, with the boundary.
    """
    values = [raw[start:end] for name, start, end in _fields(content_type, raw) if name == "model"]
    try:
        return values[0].decode() if len(values) == 1 else None
    except UnicodeDecodeError:
        return None


def _fields(content_type: str, raw: bytes) -> Iterator[tuple[str, int, int]]:
    """Each field's name, and where its value begins and ends; files are no fields."""
    request = Message()
    request["Content-Type"] = content_type
    boundary = request.get_boundary()
    if not boundary:
        return
    mark = b"\r\n--" + boundary.encode("utf-8", "surrogateescape")
    at = -2 if raw.startswith(mark[2:]) else raw.find(mark)  # the first needs no line before it
    for _ in range(MAX_PARTS):
        head = at + len(mark)
        head_end = raw.find(b"\r\n\r\n", head, head + MAX_HEAD_BYTES)
        if at == -1 or head_end == -1 or raw.startswith(b"--", head):
            return
        start = head_end + 4
        at = raw.find(mark, start)
        name = _name_of(raw[head:head_end])
        if name is not None and at != -1:
            yield name, start, at


def _name_of(head: bytes) -> str | None:
    """What a part's head calls it; None for a file."""
    part = BytesHeaderParser().parsebytes(head.lstrip())
    name = part.get_param("name", header="content-disposition")
    is_file = part.get_param("filename", header="content-disposition") is not None
    return name if isinstance(name, str) and not is_file else None
