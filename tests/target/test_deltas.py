"""What the follower reads off single events, shortened ones of llama-server."""

from typing import Any

import pytest

from specproxy.target.deltas import Delta, Kind, deltas, kind_of


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/chat/completions", "chat"),
        ("/chat/completions", "chat"),
        ("/v1/completions", "completions"),
        ("/completion", "native"),
        ("/completions", "native"),
        ("/infill", "infill"),
        ("/v1/responses", "responses"),
        ("/v1/messages", "messages"),
        ("/v1/messages/count_tokens", None),
        ("/v1/chat/completions/control", None),
    ],
)
def test_kind_of_a_path(path: str, kind: Kind | None) -> None:
    assert kind_of(path) == kind


def native(content: str, **more: Any) -> dict[str, Any]:
    return {"index": 0, "content": content, "tokens": [5], "stop": False, **more}


def chat(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": [{"finish_reason": None, "index": 0, "delta": delta}], **more}


def text(piece: str, end: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"text": piece, "index": 0, "finish_reason": end}], **more}


def calls(**function: str) -> dict[str, Any]:
    return chat({"tool_calls": [{"index": 0, "function": function}]})


def block(delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


@pytest.mark.parametrize(
    ("kind", "event", "delta"),
    [
        ("native", native("a"), Delta("a", [5])),
        ("native", native("a", index=1), Delta("a", [5], index=1, opaque=True)),
        ("native", native("", prompt_progress={}), Delta()),
        ("native", native("", tokens=[], stop=True), Delta(finished=True)),
        ("chat", chat({"role": "assistant", "content": None}), Delta()),
        ("chat", chat({"content": "a"}, timings={"n": 2}), Delta("a", timings={"n": 2})),
        ("chat", chat({"content": "b", "reasoning_content": "a"}), Delta("ab")),
        ("chat", chat({"tool_calls": [{"index": 0}]}), Delta(opaque=True)),
        ("chat", {"choices": [{"finish_reason": "stop", "delta": {}}]}, Delta(finished=True)),
        ("chat", {"choices": [], "usage": {}, "timings": {"n": 1}}, Delta(timings={"n": 1})),
        (
            "chat",
            {"choices": [{"index": 1, "delta": {"content": "a"}}]},
            Delta("a", index=1, opaque=True),
        ),
        ("chat", {"error": {"code": 500}}, Delta(finished=True, opaque=True)),
        ("chat", {"choices": "odd"}, Delta(opaque=True)),
        ("chat", calls(name="f"), Delta('{"name": "f", "arguments": ', opaque=True)),
        ("chat", calls(arguments='{"a"'), Delta('{"a"', opaque=True)),
        ("chat", chat({"tool_calls": [5, {"function": 5}]}), Delta(opaque=True)),
        ("responses", {"type": "response.output_text.delta", "delta": "a"}, Delta("a")),
        ("responses", {"type": "response.reasoning_text.delta", "delta": "a"}, Delta("a")),
        ("responses", {"type": "response.function_call_arguments.delta", "delta": "a"}, Delta("a")),
        ("responses", {"type": "response.created"}, Delta(opaque=True)),
        (
            "responses",
            {"type": "response.output_item.added", "item": {"name": "f"}},
            Delta('{"name": "f", "arguments": '),
        ),
        (
            "responses",
            {"type": "response.completed", "timings": {"n": 1}},
            Delta(finished=True, timings={"n": 1}, opaque=True),
        ),
        ("messages", block({"type": "text_delta", "text": "a"}), Delta("a")),
        ("messages", block({"type": "thinking_delta", "thinking": "a"}), Delta("a")),
        ("messages", block({"type": "input_json_delta", "partial_json": "a"}), Delta("a")),
        ("messages", block({"type": "signature_delta", "signature": "a"}), Delta(opaque=True)),
        ("messages", block(5), Delta(opaque=True)),
        ("messages", {"type": "message_stop"}, Delta(finished=True, opaque=True)),
        ("infill", native("a"), Delta("a", [5])),
        ("completions", text("a"), Delta("a")),
        ("completions", text("a", __verbose={"tokens": [7]}), Delta("a", [7])),
        ("completions", text("", "stop"), Delta(finished=True)),
    ],
)
def test_deltas(kind: Kind, event: dict[str, Any], delta: Delta) -> None:
    assert deltas(kind, event) == delta
