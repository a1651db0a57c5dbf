"""What can be assembled, and what is asked of the target then."""

from typing import Any

import pytest

from specproxy.target.deltas import Kind
from specproxy.target.streamed import can_assemble, streamed_body

KINDS: tuple[Kind, ...] = ("chat", "completions", "native")
CHAT = {"messages": [{"role": "user", "content": "hi"}]}
PROMPT = {"prompt": "hi"}


def body_of(kind: Kind, **more: Any) -> dict[str, Any]:
    return {**(CHAT if kind == "chat" else PROMPT), **more}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"stream": False},
        {"stream": None, "n": None},
        {"n": 1, "n_probs": 0, "logprobs": False, "echo": False, "response_fields": []},
        {"return_progress": True, "timings_per_token": True, "stream_options": None},
        {"stream_options": {"include_usage": False}},
        {"stop": ["a"], "seed": 3, "temperature": 0.7, "max_tokens": 5, "unheard_of": [1]},
    ],
)
def test_can_assemble(kind: Kind, more: dict[str, Any]) -> None:
    assert can_assemble(kind, body_of(kind, **more))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "more",
    [
        {"stream": True},
        {"stream": 0},
        {"stream": "no"},
        {"n": 2},
        {"n": True},
        {"n": 1.0},
        {"n_cmpl": 3},
        {"best_of": 2},
        {"suffix": "x"},
        {"echo": True},
        {"n_probs": 1},
        {"logprobs": True},
        {"logprobs": 5},
        {"top_logprobs": 2},
        {"n_indent": 4},
        {"response_fields": ["content"]},
        {"stream_options": [1]},
        {"stream_options": {"include_usage": "yes"}},
        {"timings_per_token": "yes"},
        {"return_progress": 1},
    ],
)
def test_cannot_assemble(kind: Kind, more: dict[str, Any]) -> None:
    assert not can_assemble(kind, body_of(kind, **more))


@pytest.mark.parametrize("kind", ["completions", "native"])
@pytest.mark.parametrize(
    ("prompt", "single"),
    [
        ("hi", True),
        ([1, 2], True),
        ([1, "hi", 2], True),
        (["hi"], True),
        ([[1, 2]], True),
        ({"prompt_string": "hi"}, True),
        (["hi", "ho"], False),
        ([[1], [2]], False),
        ([[1], "hi"], False),
        ([], False),
        (None, False),
        (7, False),
    ],
)
def test_one_prompt_only(kind: Kind, prompt: object, single: bool) -> None:
    assert can_assemble(kind, {"prompt": prompt}) is single


def test_what_one_kind_alone_refuses() -> None:
    assert not can_assemble("chat", body_of("chat", reasoning_format="deepseek-legacy"))
    assert not can_assemble("chat", body_of("chat", continue_final_message=True))
    assert not can_assemble("chat", body_of("chat", verbose=True))
    assert not can_assemble("completions", body_of("completions", verbose=True))
    assert can_assemble("native", body_of("native", verbose=True))


def test_streamed_body_adds_and_drops_only_what_it_must() -> None:
    body = body_of("chat", seed=1, stream=False, return_progress=True, stream_options={"x": 1})
    before = {**body}
    assert streamed_body("chat", body) == {
        **CHAT,
        "seed": 1,
        "stream": True,
        "stream_options": {"x": 1, "include_usage": True},
        "timings_per_token": True,
        "verbose": True,
    }
    assert body == before
    assert streamed_body("native", {"prompt": "hi", "return_tokens": True}) == {
        "prompt": "hi",
        "return_tokens": True,
        "stream": True,
    }
