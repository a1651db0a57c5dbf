"""Who is sped up, and what the target gets to read then."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.admission import (
    admit,
    num_choices,
    num_choices_each,
    num_prompts,
    single_prompt,
    transcript_of,
    with_slot,
)
from specproxy.target.deltas import Kind

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
TEXT = {"prompt": "Hi"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("chat", CHAT),
        ("chat", {**CHAT, "n": 1, "n_probs": 0, "logprobs": False, "stream": False}),
        ("chat", {**CHAT, "tools": [{"type": "function"}], "stream": True}),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}),
        ("chat", {"messages": [{"role": "assistant", "content": None}]}),
        ("completions", TEXT),
        ("native", {"prompt": [1, 2, 3]}),
        ("native", {"prompt": ["Hi"]}),
        ("native", {"prompt": [[1, 2]], "stream": True}),
        ("native", {**TEXT, "x_unknown": 1, "grammar": "root ::= x"}),
    ],
)
def test_admitted(kind: Kind, body: dict[str, Any]) -> None:
    admission = admit(kind, body)
    assert admission is not None
    assert (admission.kind, admission.body) == (kind, body)
    assert admission.streamed is (body.get("stream") is True)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("chat", {**CHAT, "n": 2}),
        ("chat", {**CHAT, "n": "1"}),
        ("native", {**TEXT, "n_cmpl": 3}),
        ("completions", {**TEXT, "best_of": 2}),
        ("chat", {**CHAT, "logprobs": True}),
        ("completions", {**TEXT, "logprobs": 3}),
        ("native", {**TEXT, "n_probs": 1, "stream": True}),
        ("chat", {**CHAT, "id_slot": 0}),
        ("chat", {**CHAT, "id_slot": -1, "stream": True}),
        ("chat", {}),
        ("chat", {"messages": {}}),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
        ("chat", {"messages": [{"role": "user", "content": ["a"]}]}),
        ("chat", {**CHAT, "continue_final_message": True}),  # its stream lacks the prefix
        ("native", {}),
        ("native", {"prompt": ["Hi", "It"]}),
        ("native", {"prompt": [1, "Hi"]}),
        ("native", {"prompt": [True]}),
        ("native", {"prompt": {"prompt_string": "x", "multimodal_data": []}, "stream": True}),
        ("native", {**TEXT, "response_fields": ["content"]}),
    ],
)
def test_left_to_the_target_alone(kind: Kind, body: dict[str, Any]) -> None:
    assert admit(kind, body) is None


def test_later_turns_extend_the_transcript() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    first = admit("chat", {"messages": messages})
    more = [*messages, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    second = admit("chat", {"messages": more})
    assert first is not None
    assert second is not None
    assert second.transcript.startswith(first.transcript)


def test_an_image_tells_conversations_apart_by_its_beginning() -> None:
    def said(image: str, text: str = "What is this?") -> str | None:
        parts = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": text}]
        return transcript_of("chat", {"messages": [{"role": "user", "content": parts}]})

    large = "data:image/png;base64," + "a" * (20 << 20)
    first = said(large)
    assert first is not None
    assert len(first) < 1 << 17
    assert said(large) == first
    assert said(large.replace("png", "gif")) != first
    assert said("data:b") != said("data:c")
    assert said("data:b") != said("data:b", "Really?")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, 1),
        ({"n": 3}, 3),
        ({"n": 1, "n_cmpl": 2}, 2),  # as llama-server has it
        ({"n": 3, "n_cmpl": None}, 3),
        ({"n": 0}, 1),
        ({"n": "x"}, 1),
        ({"prompt": ["a", "b"], "n": 2}, 4),
        ({"prompt": [1, 2], "n": 2}, 2),
        ({"prompt": []}, 1),
        ({"n": 0, "prompt": ["a", "b"]}, 2),
        ({"n": -1, "prompt": ["a", "b"]}, 2),
        ({"n": 2.7, "prompt": ["a", "b"]}, 4),
        ({"n": 0.9}, 1),
        ({"n": True}, 1),
        ({"n": float("inf")}, 1),
        ({"n": float("nan")}, 1),
        ({"n": 10**9}, 10**9),
    ],
)
def test_choices_are_counted(body: dict[str, Any], expected: int) -> None:
    body = {**TEXT, **body}
    assert num_choices("native", body) == expected
    assert num_choices_each("native", body) * num_prompts("native", body) == expected


@pytest.mark.parametrize(("kind", "expected"), [("chat", 2), ("responses", 2), ("messages", 1)])
def test_choices_of_conversations(kind: Kind, expected: int) -> None:
    body = {**CHAT, "input": "Hi", "n": 2, "prompt": ["a", "b"]}
    assert num_choices(kind, body) == expected
    assert num_prompts(kind, body) == 1


def test_single_prompts() -> None:
    assert single_prompt([["a"]]) is None
    assert single_prompt([[1, 2]]) == [1, 2]
    assert single_prompt("") is None
    assert single_prompt([]) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    body=st.dictionaries(st.text().filter(lambda key: key != "id_slot"), JSON, max_size=4),
    slot=st.integers(0, 99),
    indent=st.none() | st.integers(0, 3),
    before=st.text(" \t\r\n", max_size=3),
    ascii_only=st.booleans(),
)
def test_the_slot_is_added_and_every_byte_kept(
    body: dict[str, Any], slot: int, indent: int | None, before: str, ascii_only: bool
) -> None:
    text = before + json.dumps(body, indent=indent, ensure_ascii=ascii_only)
    raw = text.encode("utf-8", "surrogatepass")
    sent = with_slot(raw, slot)
    added = b'"id_slot":%d' % slot + (b"," if body else b"")
    assert sent.replace(added, b"", 1) == raw
    parsed = json.loads(sent.decode("utf-8", "surrogatepass"))
    assert parsed == {"id_slot": slot, **body}
