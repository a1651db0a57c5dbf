"""`/tokenize`, `/detokenize`, `/apply-template`, and how many tokens a chat request has."""

from aiohttp import web

from specproxy.coordinator.http.fields import Fields, wrong
from specproxy.coordinator.http.prompts import check_ids, tokenize_mixed
from specproxy.coordinator.http.replies import json_reply, read_json
from specproxy.coordinator.http.service import SERVICE
from specproxy.coordinator.http.shapes import rendered
from specproxy.coordinator.http.text import shown


async def tokenize(request: web.Request) -> web.Response:
    model = request.app[SERVICE].ready()
    fields = Fields(await read_json(request))
    vocabulary = model.engine.vocabulary
    content = fields.value("content")
    tokens = tokenize_mixed(
        [] if content is None else content,
        vocabulary,
        add_special=fields.flag("add_special"),
        parse_special=fields.flag("parse_special", True),
    )
    if not fields.flag("with_pieces"):
        return json_reply({"tokens": tokens})
    check_ids(tokens, vocabulary)
    pieces = [{"id": token, "piece": _piece(rendered(token, vocabulary))} for token in tokens]
    return json_reply({"tokens": pieces})


async def detokenize(request: web.Request) -> web.Response:
    model = request.app[SERVICE].ready()
    tokens = (await read_json(request)).get("tokens", [])
    if not isinstance(tokens, list) or any(type(token) is not int for token in tokens):
        raise wrong("tokens", tokens, "a list of token ids")
    vocabulary = model.engine.vocabulary
    check_ids(tokens, vocabulary)
    data = b"".join(rendered(token, vocabulary) for token in tokens)
    return json_reply({"content": shown(data)})


async def apply_template(request: web.Request) -> web.Response:
    model = request.app[SERVICE].ready()
    return json_reply({"prompt": model.template.apply(await read_json(request))})


async def input_tokens(request: web.Request) -> web.Response:
    model = request.app[SERVICE].ready()
    prompt = model.template.apply(await read_json(request))
    tokens = model.engine.vocabulary.tokenize(prompt, add_special=True, parse_special=True)
    return json_reply({"input_tokens": len(tokens), "object": "response.input_tokens"})


def _piece(data: bytes) -> str | list[int]:
    """As text where it is some by itself, else its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
