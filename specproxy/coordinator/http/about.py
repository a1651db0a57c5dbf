"""What the coordinator says of itself: health, properties, models, slots, metrics."""

import time

from aiohttp import web

from specproxy.coordinator.http.replies import Json, error_reply, json_reply
from specproxy.coordinator.http.service import SERVICE
from specproxy.coordinator.http.settings import DEFAULTS, brief_settings_json
from specproxy.coordinator.http.shapes import FINGERPRINT
from specproxy.coordinator.served import ServedModel
from specproxy.core.drafts import PROTOCOL


async def health(request: web.Request) -> web.Response:
    request.app[SERVICE].ready()
    return json_reply({"status": "ok"})


async def props(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    model = service.ready()
    facts, has_tools = model.facts, model.format.tools is not None
    return json_reply(
        {
            "default_generation_settings": {
                "params": brief_settings_json(DEFAULTS),
                "n_ctx": model.num_context,
            },
            "total_slots": len(model.engine.states()),
            "model_alias": model.engine.model_name,
            "model_ftype": facts.ftype,
            "model_path": facts.path,
            "modalities": {"vision": False, "video": False, "audio": False},
            "media_marker": service.life,
            "endpoint_slots": True,
            "endpoint_props": False,
            "endpoint_metrics": True,
            "ui": False,
            "ui_settings": {},
            "chat_template": model.template.source,
            "chat_template_caps": {
                "supports_tools": has_tools,
                "supports_tool_calls": has_tools,
            },
            "bos_token": facts.bos_text,
            "eos_token": facts.eos_text,
            "build_info": FINGERPRINT,
            "is_sleeping": False,
            "cors_proxy_enabled": False,
            "specproxy": {"drafts": PROTOCOL},
        }
    )


async def models(request: web.Request) -> web.Response:
    model = request.app[SERVICE].ready()
    name = model.engine.model_name
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
        "details": {
            "parent_model": "",
            "format": "gguf",
            "family": "",
            "families": [""],
            "parameter_size": "",
            "quantization_level": "",
        },
    }
    return json_reply({"models": [listed], "object": "list", "data": [_model_entry(model)]})


def _model_entry(model: ServedModel) -> Json:
    facts, engine = model.facts, model.engine
    return {
        "id": engine.model_name,
        "aliases": [engine.model_name],
        "tags": [],
        "object": "model",
        "created": int(time.time()),
        "owned_by": "llamacpp",
        "meta": {
            "vocab_type": 2,
            "n_vocab": len(engine.vocabulary),
            "n_ctx": model.num_context,
            "n_ctx_train": engine.num_context_trained,
            "n_embd": facts.num_embedding,
            "n_params": 0,
            "size": facts.num_bytes,
            "ftype": facts.ftype,
        },
    }


async def slots(request: web.Request) -> web.Response:
    model = request.app[SERVICE].ready()
    states = model.engine.states()
    if request.query.get("fail_on_no_slot") and all(state.busy for state in states):
        return error_reply("no slot available", "unavailable_error", 503)
    return json_reply(
        [
            {
                "id": state.id,
                "n_ctx": model.num_context,
                "speculative": True,
                "is_processing": state.busy,
                "n_prompt_tokens": state.num_tokens,
                "next_token": [{"has_next_token": state.busy, "n_decoded": state.num_emitted}],
            }
            for state in states
        ]
    )


async def metrics(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    text = service.counts.render(service.ready().engine)
    return web.Response(text=text, headers={"Content-Type": "text/plain; version=0.0.4"})


async def lora_adapters(request: web.Request) -> web.Response:
    """There are none."""
    return json_reply([])
