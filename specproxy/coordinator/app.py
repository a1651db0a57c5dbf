"""The coordinator's application: llama-server's routes, and the draft channel."""

from aiohttp import web

from specproxy.coordinator.http import about, absent, generate, tokens
from specproxy.coordinator.http.drafts import drafts
from specproxy.coordinator.http.middleware import allow_origin, errors, keys, preflight
from specproxy.coordinator.http.service import SERVICE, Service
from specproxy.coordinator.served import ServedModel
from specproxy.core.drafts import PATH

MAX_BODY_BYTES = 64 * 1024 * 1024


def create_app(
    model: ServedModel, *, api_key: str | None = None, max_body_bytes: int = MAX_BODY_BYTES
) -> web.Application:
    """Build the application. The engine is closed by whoever made it.

    Serve it with `handler_cancellation=True`, so that a vanished client frees its place.
    """
    middlewares = [errors, preflight, *([keys(api_key)] if api_key is not None else [])]
    app = web.Application(middlewares=middlewares, client_max_size=max_body_bytes)
    service = app[SERVICE] = Service(model)
    app.on_response_prepare.append(allow_origin)

    async def drop_channels(_app: web.Application) -> None:
        service.channels.drop_all()

    app.on_shutdown.append(drop_channels)
    gets = {
        "/health": about.health,
        "/v1/health": about.health,
        "/props": about.props,
        "/slots": about.slots,
        "/metrics": about.metrics,
        "/models": about.models,
        "/v1/models": about.models,
        "/lora-adapters": about.lora_adapters,
        PATH: drafts,
    }
    posts = {
        "/completion": generate.native,
        "/completions": generate.native,
        "/v1/completions": generate.text,
        "/chat/completions": generate.chat,
        "/v1/chat/completions": generate.chat,
        "/tokenize": tokens.tokenize,
        "/detokenize": tokens.detokenize,
        "/apply-template": tokens.apply_template,
        "/chat/completions/input_tokens": tokens.input_tokens,
        "/v1/chat/completions/input_tokens": tokens.input_tokens,
        **dict.fromkeys(absent.ABSENT, absent.absent),
    }
    for path, get in gets.items():
        app.router.add_get(path, get)
    for path, post in posts.items():
        app.router.add_post(path, post)
    app.router.add_route("*", "/{path:.*}", absent.unknown)
    return app
