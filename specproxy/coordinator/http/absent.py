"""Routes of llama-server that the coordinator does not have: said clearly, with what there is."""

from aiohttp import web

from specproxy.coordinator.http.replies import error_reply

_EMBEDDINGS = "embeddings: run llama-server with --embeddings for them"
_RERANKING = "reranking: run llama-server with --reranking for it"
_RESPONSES = "the Responses API: use /v1/chat/completions"
_MESSAGES = "the Anthropic API: use /v1/chat/completions"
_AUDIO = "audio: use a llama-server with a model for it"
_LORA = "LoRA adapters: merge them into the model"
ABSENT = {
    **dict.fromkeys(("/embedding", "/embeddings", "/v1/embeddings"), _EMBEDDINGS),
    **dict.fromkeys(("/rerank", "/reranking", "/v1/rerank", "/v1/reranking"), _RERANKING),
    **dict.fromkeys(("/responses", "/v1/responses"), _RESPONSES),
    **dict.fromkeys(("/responses/input_tokens", "/v1/responses/input_tokens"), _RESPONSES),
    **dict.fromkeys(("/v1/messages", "/v1/messages/count_tokens"), _MESSAGES),
    **dict.fromkeys(("/audio/transcriptions", "/v1/audio/transcriptions"), _AUDIO),
    "/infill": "infill: write the model's infill tokens into the prompt of /completion",
    "/v1/chat/completions/control": "control of running answers: close the connection to end one",
    "/lora-adapters": _LORA,
    "/props": "changing properties: send parameters with each request",
    "/slots/{id}": "saving and restoring slots: prompts that begin alike share their cache anyway",
}
"""What a POST to a path would want, and the way out."""


async def absent(request: web.Request) -> web.Response:
    """One of `ABSENT`."""
    resource = request.match_info.route.resource
    what = ABSENT[resource.canonical] if resource is not None else request.path
    return error_reply(f"The coordinator does not support {what}.", "not_supported_error", 501)


async def unknown(request: web.Request) -> web.Response:
    """Any other path."""
    return error_reply(
        f"There is no {request.method} {request.path} here. The coordinator answers POST"
        " /v1/chat/completions, /v1/completions, /completion, /tokenize, /detokenize and"
        " /apply-template, and GET /health, /props, /v1/models, /slots and /metrics.",
        "not_found_error",
        404,
    )
