"""The other routes of the scripted target: what it is, tokens, templates, pass-through.

Invariant: no route changes what another request gets.
"""

import hashlib
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from specproxy.testing import shapes
from specproxy.testing.chat import TEMPLATE, THINKING_TEMPLATE, BadRequest, chat_prompt
from specproxy.testing.completions import Served, json_response, read_json
from specproxy.testing.converted import chat_body
from specproxy.testing.parameters import tokenize_mixed

Route = Callable[[web.Request, Served], Awaitable[web.StreamResponse]]
NUM_DIMENSIONS = 8


async def health(request: web.Request, served: Served) -> web.StreamResponse:
    return json_response({"status": "ok"})


async def props(request: web.Request, served: Served) -> web.StreamResponse:
    engine = served.passes.engine
    vocabulary = served.language.vocabulary
    return json_response(
        {
            "default_generation_settings": {
                "params": shapes.settings(None, speculative=served.speculative, full=False),
                "n_ctx": engine.slots[0].n_ctx,
            },
            "total_slots": len(engine.slots),
            "model_alias": served.model,
            "model_ftype": "scripted",
            "model_path": f"/models/{served.model}.gguf",
            "modalities": {"vision": False, "video": False, "audio": False},
            "media_marker": served.media_marker,
            "endpoint_slots": True,
            "endpoint_props": False,
            "endpoint_metrics": True,
            "ui": False,
            "ui_settings": {},
            "chat_template": THINKING_TEMPLATE if served.language.thinks else TEMPLATE,
            "chat_template_caps": {},
            "bos_token": "<s>" if vocabulary.add_bos else "",
            "eos_token": "<|im_end|>",
            "build_info": shapes.FINGERPRINT,
            "is_sleeping": False,
            "cors_proxy_enabled": False,
        }
    )


async def slots(request: web.Request, served: Served) -> web.StreamResponse:
    answer = []
    for slot in served.passes.engine.slots:
        entry: dict[str, Any] = {
            "id": slot.id,
            "n_ctx": slot.n_ctx,
            "speculative": served.speculative,
            "is_processing": slot.busy,
        }
        task = slot.task or slot.previous
        if task is not None:
            entry |= {
                "id_task": task.id,
                "n_prompt_tokens": len(slot.tokens),
                "n_prompt_tokens_processed": slot.stats.num_prompt,
                "n_prompt_tokens_cache": slot.stats.num_cached,
                "params": shapes.settings(task.params, speculative=served.speculative, full=False),
                "next_token": [
                    {
                        "has_next_token": slot.busy,
                        "has_new_line": slot.has_new_line,
                        "n_remain": slot.num_remaining,
                        "n_decoded": slot.stats.num_predicted,
                    }
                ],
            }
        answer.append(entry)
    if request.query.get("fail_on_no_slot") and all(entry["is_processing"] for entry in answer):
        return json_response(
            shapes.error("no slot available", "unavailable_error", 503), status=503
        )
    return json_response(answer)


async def metrics(request: web.Request, served: Served) -> web.StreamResponse:
    engine = served.passes.engine
    totals = engine.totals
    counters = {
        "prompt_tokens_total": totals.num_prompt,
        "tokens_predicted_total": totals.num_predicted,
        "n_decode_total": len(engine.passes),
        "spec_decode_num_draft_tokens_total": totals.num_drafted,
        "spec_decode_num_accepted_tokens_total": totals.num_accepted,
    }
    gauges = {
        "requests_processing": sum(slot.busy for slot in engine.slots),
        "requests_deferred": engine.num_deferred,
    }
    lines = []
    for kind, values in (("counter", counters), ("gauge", gauges)):
        for name, value in values.items():
            lines.append(f"# HELP llamacpp:{name} {name}")
            lines += [f"# TYPE llamacpp:{name} {kind}", f"llamacpp:{name} {value}"]
    headers = {"Content-Type": "text/plain; version=0.0.4"}
    return web.Response(text="\n".join(lines) + "\n", headers=headers)


async def models(request: web.Request, served: Served) -> web.StreamResponse:
    name = served.model
    meta = {
        "vocab_type": 2,
        "n_vocab": len(served.language.vocabulary),
        "n_ctx": served.passes.engine.slots[0].n_ctx,
        "n_ctx_train": 8192,
        "n_embd": NUM_DIMENSIONS,
        "n_params": 1,
        "size": 1,
        "ftype": "scripted",
    }
    entry = {
        "id": name,
        "aliases": [name],
        "tags": [],
        "object": "model",
        "created": 0,
        "owned_by": "llamacpp",
        "meta": meta,
    }
    details = {"parent_model": "", "format": "gguf", "family": "", "families": [""]}
    listed = {
        "name": name,
        "model": name,
        "modified_at": "",
        "size": "",
        "digest": "",
        "type": "model",
        "description": "",
        "tags": [""],
        "capabilities": ["completion"],
        "parameters": "",
        "details": {**details, "parameter_size": "", "quantization_level": ""},
    }
    return json_response({"models": [listed], "object": "list", "data": [entry]})


async def tokenize(request: web.Request, served: Served) -> web.StreamResponse:
    body = read_json(await request.read())
    vocabulary = served.language.vocabulary
    tokens = tokenize_mixed(
        body.get("content", ""),
        vocabulary,
        add_special=bool(body.get("add_special", False)) and "content" in body,
        parse_special=bool(body.get("parse_special", True)),
    )
    if not body.get("with_pieces", False):
        return json_response({"tokens": tokens})
    pieces = [{"id": token, "piece": _piece(vocabulary.rendered(token))} for token in tokens]
    return json_response({"tokens": pieces})


async def detokenize(request: web.Request, served: Served) -> web.StreamResponse:
    body = read_json(await request.read())
    vocabulary = served.language.vocabulary
    tokens = body.get("tokens", [])
    if any(not isinstance(token, int) for token in tokens):
        message = "[json.exception.type_error.302] type must be number, but is string"
        raise BadRequest(message, status=500)
    if any(not 0 <= token < len(vocabulary) for token in tokens):
        raise BadRequest("vector::_M_range_check: token out of range", status=500)
    data = b"".join(vocabulary.rendered(token) for token in tokens)
    return json_response({"content": shapes.text_of(data)})


async def apply_template(request: web.Request, served: Served) -> web.StreamResponse:
    return json_response({"prompt": chat_prompt(read_json(await request.read()))})


async def embeddings(request: web.Request, served: Served) -> web.StreamResponse:
    """Unit-free vectors that are a pure function of the text."""
    given = read_json(await request.read()).get("input", "")
    texts = given if isinstance(given, list) else [given]
    data = []
    for index, text in enumerate(texts):
        digest = hashlib.blake2b(str(text).encode(), digest_size=2 * NUM_DIMENSIONS).digest()
        vector = [value / 32768 for value in struct.unpack(f"<{NUM_DIMENSIONS}h", digest)]
        data.append({"embedding": vector, "index": index, "object": "embedding"})
    count = sum(len(served.language.vocabulary.tokenize(str(text))) for text in texts)
    usage = {"prompt_tokens": count, "total_tokens": count}
    return json_response({"model": served.model, "object": "list", "usage": usage, "data": data})


async def count_tokens(request: web.Request, served: Served) -> web.StreamResponse:
    body = chat_body("messages", read_json(await request.read()))
    tokens = served.language.vocabulary.tokenize(chat_prompt(body), parse_special=True)
    return json_response({"input_tokens": len(tokens)})


async def rerank(request: web.Request, served: Served) -> web.StreamResponse:
    """Scores that are a pure function of the texts."""
    body = read_json(await request.read())
    if not body.get("query") or not isinstance(body.get("documents"), list):
        raise BadRequest('"query" and "documents" must be provided')
    results = []
    for index, text in enumerate(body["documents"]):
        digest = hashlib.blake2b(f"{body['query']}|{text}".encode(), digest_size=2).digest()
        score = int.from_bytes(digest, "little") / 65536
        results.append({"index": index, "relevance_score": score})
    usage = {"prompt_tokens": len(results), "total_tokens": len(results)}
    return json_response(
        {"model": served.model, "object": "list", "usage": usage, "results": results}
    )


async def adapters(request: web.Request, served: Served) -> web.StreamResponse:
    return json_response([])


async def set_adapters(request: web.Request, served: Served) -> web.StreamResponse:
    return json_response({"success": True})


async def set_props(request: web.Request, served: Served) -> web.StreamResponse:
    message = "This server does not support changing global properties."
    body = shapes.error(message, "not_supported_error", 501)
    return json_response(body, status=501)


async def echo(request: web.Request, served: Served) -> web.StreamResponse:
    """The body as it came; method, query and `?status=` in the answer's head."""
    return web.Response(
        body=await request.read(),
        status=int(request.query.get("status", "200")),
        headers={
            "Content-Type": request.headers.get("Content-Type", "application/octet-stream"),
            "X-Echo-Method": request.method,
            "X-Echo-Path": request.path_qs,
        },
    )


ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/health"): health,
    ("GET", "/v1/health"): health,
    ("GET", "/props"): props,
    ("GET", "/slots"): slots,
    ("GET", "/metrics"): metrics,
    ("GET", "/models"): models,
    ("GET", "/v1/models"): models,
    ("POST", "/tokenize"): tokenize,
    ("POST", "/detokenize"): detokenize,
    ("POST", "/apply-template"): apply_template,
    ("POST", "/v1/embeddings"): embeddings,
    ("POST", "/v1/messages/count_tokens"): count_tokens,
    ("POST", "/rerank"): rerank,
    ("POST", "/v1/rerank"): rerank,
    ("GET", "/lora-adapters"): adapters,
    ("POST", "/lora-adapters"): set_adapters,
    ("POST", "/props"): set_props,
}
COMPLETIONS = {
    "/completion": "native",
    "/completions": "native",
    "/v1/completions": "text",
    "/chat/completions": "chat",
    "/v1/chat/completions": "chat",
    "/infill": "infill",
    "/v1/messages": "messages",
    "/v1/responses": "responses",
    "/responses": "responses",
}


def _piece(data: bytes) -> str | list[int]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
