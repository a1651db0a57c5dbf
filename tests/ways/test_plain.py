"""Which requests rounds can carry."""

from typing import Any

import pytest

from specproxy.ways.plain import read_plain

PROMPT = {"prompt": "Hi"}
DEFAULTS = {"temperature": 0.8, "seed": 2**32 - 1, "mirostat": 0, "n_predict": -1}


@pytest.mark.parametrize(
    "more",
    [
        {"temperature": 1.2, "top_p": 0.5, "repeat_penalty": 1.3, "dry_multiplier": 0.8},
        {"seed": -1},
        {"seed": None},
        {"seed": 3, "temperature": 0},
        {"n": 1, "logprobs": False, "response_format": {"type": "text"}},
        {"stop": ["x"], "stream": True, "user": "me"},
    ],
)
def test_what_depends_on_the_tokens_alone_is_carried(more: dict[str, Any]) -> None:
    plain = read_plain("native", {**PROMPT, **more}, DEFAULTS)
    assert plain is not None
    assert not set(plain.sampling) & {"stop", "stream", "prompt", "n"}


@pytest.mark.parametrize(
    "more",
    [
        {"seed": 3},
        {"seed": 3, "temperature": 0, "xtc_probability": 0.5},
        {"seed": 3, "temperature": 0, "samplers": ["top_k"]},
        {"seed": 3, "temperature": 0, "samplers": "k"},
        {"seed": "x"},
        {"mirostat": 1},
        {"grammar": "root ::= x"},
        {"json_schema": {}},
        {"n": 2},
        {"n_probs": 1},
        {"id_slot": 1},
        {"something_new": 1},
        {"max_tokens": 2.5},
        {"prompt": ["a", "b"]},
        {"prompt": ""},
    ],
)
def test_what_a_sampler_must_remember_is_not(more: dict[str, Any]) -> None:
    assert read_plain("native", {**PROMPT, **more}, DEFAULTS) is None


@pytest.mark.parametrize("kind", ["infill", "messages", "responses"])
def test_other_kinds_are_not(kind: str) -> None:
    assert read_plain(kind, PROMPT, DEFAULTS) is None


@pytest.mark.parametrize("server", [{"seed": 5}, {"mirostat": 2}, {"adaptive_target": 0.5}])
def test_the_servers_own_defaults_count(server: dict[str, Any]) -> None:
    assert read_plain("native", PROMPT, {**DEFAULTS, **server}) is None


@pytest.mark.parametrize(
    ("body", "server", "limit"),
    [
        ({}, {}, None),
        ({"max_tokens": 7}, {}, 7),
        ({"n_predict": -1}, {}, None),
        ({}, {"n_predict": 9}, 9),
        ({"max_tokens": 20}, {"n_predict": 9}, 20),
        ({"max_tokens": 20}, {"n_predict": None}, 20),
        ({"max_tokens": 0}, {}, 1),
    ],
)
def test_limits(body: dict[str, Any], server: dict[str, Any], limit: int | None) -> None:
    plain = read_plain("native", {**PROMPT, **body}, {**DEFAULTS, **server})
    assert plain is not None
    assert plain.max_tokens == limit


@pytest.mark.parametrize(
    ("body", "server"),
    [
        ({"n_predict": -1}, {"n_predict": 9}),  # it ends at 9, and shows -1
        ({"n_predict": -1}, {"n_predict": None}),
        ({}, {"n_predict": None}),
        ({}, {"n_predict": -2}),
        ({"n_predict": -2}, {}),
    ],
)
def test_limits_that_the_target_must_judge(body: dict[str, Any], server: dict[str, Any]) -> None:
    assert read_plain("native", {**PROMPT, **body}, {**DEFAULTS, **server}) is None


@pytest.mark.parametrize(
    "part", [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "input_audio"}, "x"]
)
@pytest.mark.parametrize("role", ["system", "user"])
def test_what_is_more_than_text_is_not(role: str, part: Any) -> None:
    text = {"type": "text", "text": "See"}
    question = {"role": "user", "content": "?"}
    for content, is_plain in (([text], True), ([text, part], False)):
        body = {"messages": [{"role": role, "content": content}, question]}
        assert (read_plain("chat", body, DEFAULTS) is not None) is is_plain


def test_a_continued_message_is_not() -> None:
    user, assistant = {"role": "user", "content": "?"}, {"role": "assistant", "content": "I"}
    assert read_plain("chat", {"messages": [user]}, DEFAULTS) is not None
    assert read_plain("chat", {"messages": [user, assistant]}, DEFAULTS) is None
