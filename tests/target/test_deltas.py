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
        ("/infill", None),
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


@pytest.mark.parametrize(
    ("kind", "event", "delta"),
    [
        ("native", native("a"), Delta("a", [5])),
        ("native", native("a", index=1), Delta("a", [5], opaque=True)),
        ("native", native("", prompt_progress={}), Delta()),
        ("native", native("", tokens=[], stop=True), Delta(finished=True)),
        ("chat", chat({"role": "assistant", "content": None}), Delta()),
        ("chat", chat({"content": "a"}, timings={"n": 2}), Delta("a", timings={"n": 2})),
        ("chat", chat({"content": "b", "reasoning_content": "a"}), Delta("ab")),
        ("chat", chat({"tool_calls": [{"index": 0}]}), Delta(opaque=True)),
        ("chat", {"choices": [{"finish_reason": "stop", "delta": {}}]}, Delta(finished=True)),
        ("chat", {"choices": [], "usage": {}, "timings": {"n": 1}}, Delta(timings={"n": 1})),
        ("chat", {"choices": [{"index": 1, "delta": {"content": "a"}}]}, Delta("a", opaque=True)),
        ("chat", {"error": {"code": 500}}, Delta(finished=True, opaque=True)),
        ("chat", {"choices": "odd"}, Delta(opaque=True)),
        ("completions", text("a"), Delta("a")),
        ("completions", text("a", __verbose={"tokens": [7]}), Delta("a", [7])),
        ("completions", text("", "stop"), Delta(finished=True)),
    ],
)
def test_deltas(kind: Kind, event: dict[str, Any], delta: Delta) -> None:
    assert deltas(kind, event) == delta
