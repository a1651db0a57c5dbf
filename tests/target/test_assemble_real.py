"""The assembled answer against the plain one of the real llama-server, request by request.

Greedy or seeded, no prompt cache: both requests do the same work. Compared is the JSON text, so
keys and their order count; ids, creation time and durations are levelled. A stream that cannot
give the answer must say so, and only in the cases listed here.
"""

import json
from typing import Any

import pytest

from specproxy.target.assemble import Json, Kind, NotAssembled, can_assemble, deltas

pytestmark = pytest.mark.real

KINDS: tuple[Kind, ...] = ("chat", "completions", "native")
# (a system message of one letter keeps the template from adding its long one)
QUESTION = [{"role": "system", "content": "x"}, {"role": "user", "content": "Capital of France?"}]
PROMPT = "The capital of France is"
UNICODE = "hi \U0001f642 w\u00f6rld \u4f60\u597d"
HOT = {"temperature": 2.5, "top_k": 0, "top_p": 1, "min_p": 0}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
PLACE = {"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"]}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "Weather", "parameters": PLACE},
}
WEATHER = [{"role": "system", "content": "x"}, {"role": "user", "content": "Weather in Paris?"}]
ASKED = {
    "id": "a",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}
# The model repeats what it seems to have done before.
CALL = {
    "tools": [TOOL],
    "messages": [
        *WEATHER,
        {"role": "assistant", "content": "", "tool_calls": [ASKED]},
        {"role": "tool", "content": "wet", "tool_call_id": "a"},
        *WEATHER[1:],
    ],
}


def literal(text: str) -> Json:
    """A grammar that lets the model say nothing else."""
    return {"grammar": f"root ::= {json.dumps(text, ensure_ascii=False)}", "num": 40}


# `num` becomes the kind's limit of tokens; 8 where there is none.
COMMON: list[Json] = [
    *({"num": num} for num in (0, 1, 2, 5, 24)),
    *({"num": 16, "stop": stop} for stop in ("e", ".", "\n", "", [], ["Paris", "x"], " zz", None)),
    {"num": 16, "stop": ["F", "Par", "is", "L"]},
    *({**HOT, "seed": seed, "num": 20} for seed in (1, 2)),
    {"seed": 4, "temperature": 0.8},
    *(literal(text) for text in (UNICODE, "  spaced  ", "a\n\nb\n", "x < y <b", "\t")),
    {"ignore_eos": True},
    {"timings_per_token": True, "return_tokens": True, "return_progress": True},
    {"n": 1, "logprobs": 0, "stream": False, "user": "me", "stream_options": {}},
    {"logit_bias": {"260": 5}, "frequency_penalty": 1, "presence_penalty": 0.5},
    {"repeat_penalty": 1.3, "min_keep": 2, "samplers": ["top_k", "temperature"]},
    {"id_slot": 1},
    {"n_predict": 3, "num": 5},
    {"temperature": "warm"},
    {"stop": 5},
]
CHAT: list[Json] = [
    {"messages": QUESTION[1:]},
    {
        "messages": [
            *QUESTION,
            {"role": "assistant", "content": "Paris."},
            {"role": "user", "content": "And of Spain?"},
        ]
    },
    {"messages": [*QUESTION, {"role": "assistant", "content": "The capital"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    {"messages": [{"role": "user", "content": "Say only: ok"}], "num": 60},
    {"messages": "none"},
    {"max_completion_tokens": 4, "num": None},
    {"reasoning_effort": "none"},
    *({"reasoning_format": name} for name in ("none", "auto", "deepseek")),
    *(
        {**literal("<think>a b</think>c d"), "reasoning_format": name}
        for name in ("none", "deepseek")
    ),
    *({"tools": [TOOL], "tool_choice": choice} for choice in ("auto", "none", "required")),
    {"tools": "none"},
    {"response_format": {"type": "text"}},
    {"response_format": {"type": "json_object"}, "num": 24},
    {"response_format": {"type": "json_object", "schema": SCHEMA}, "num": 40},
    {"response_format": {"type": "json_schema", "json_schema": {"schema": PLACE}}, "num": 60},
    {"response_format": {"type": "nonsense"}},
]
TEXT: list[Json] = [
    {"prompt": [504, 3575, 282]},
    {"prompt": [PROMPT]},
    {"prompt": [[504, 3575, 282]]},
    {"prompt": [504, "capital of", 282]},
    {"prompt": {"prompt_string": PROMPT}},
    {"prompt": "# Title\n\n", "num": 24},
    {"prompt": "<|im_start|>user\nSay ok<|im_end|>\n<|im_start|>assistant\n", "num": 60},
    {"prompt": [{"nonsense": 1}]},
    {"json_schema": PLACE, "num": 60},
    {"t_max_predict_ms": 100_000},
    {"cache_prompt": True},
    {**literal(UNICODE), "return_tokens": False},
]

TOOLS: list[Json] = [
    *({**CALL, "tool_choice": choice, "num": 60} for choice in ("auto", "required", "none")),
    {**CALL, "parallel_tool_calls": True, "num": 60},
    *({**CALL, "num": num} for num in (14, 19, 24)),
    {"tools": [TOOL]},
    *(literal(text) for text in ("<think>a b</think>c d", "<think>open", "a <tool_call> b")),
    {**literal("<think>\nhm\n</think>\n\nok"), "reasoning_format": "none"},
]


def body_of(kind: Kind, case: Json) -> Json:
    limit = "n_predict" if kind == "native" else "max_tokens"
    start = {"messages": QUESTION} if kind == "chat" else {"prompt": PROMPT}
    more = {limit: case.get("num", 8), "temperature": 0, "cache_prompt": False}
    return {**start, **more, **{key: value for key, value in case.items() if key != "num"}}


CASES = [
    (kind, body_of(kind, case))
    for kind in KINDS
    for case in (*COMMON, *(CHAT if kind == "chat" else TEXT))
]
# A generation that ends inside a character or a possible stop string, or whose ids the stream
# does not have: the target's stream lacks what its plain answer has.
INCOMPLETE = [
    *((kind, {**literal(UNICODE), "num": 4}) for kind in KINDS),
    *((kind, {**literal("abc abc"), "stop": ["abc abd"], "num": 2}) for kind in KINDS),
    ("native", {**literal(UNICODE), "return_tokens": True}),
]


@pytest.mark.parametrize(("kind", "body"), CASES)
def test_assembled_is_what_the_target_says_without_a_stream(
    server: Any, kind: Kind, body: Json
) -> None:
    assert can_assemble(kind, body)
    if body["cache_prompt"]:
        server.post(kind, body)
    plain, assembled = server.both_ways(kind, body)
    assert assembled == plain


@pytest.mark.parametrize("case", TOOLS)
def test_calls_and_thoughts_are_assembled(tool_server: Any, case: Json) -> None:
    plain, assembled = tool_server.both_ways("chat", body_of("chat", case))
    assert assembled == plain


@pytest.mark.parametrize("num", [1, 12, 27])
def test_a_limit_inside_the_markup_of_a_call_is_noticed(tool_server: Any, num: int) -> None:
    with pytest.raises(NotAssembled):
        tool_server.assembled("chat", body_of("chat", {**CALL, "num": num}))


@pytest.mark.parametrize(("kind", "case"), INCOMPLETE)
def test_what_a_stream_lacks_is_noticed(server: Any, kind: Kind, case: Json) -> None:
    body = body_of(kind, case)
    assert can_assemble(kind, body)
    with pytest.raises(NotAssembled):
        server.assembled(kind, body)


@pytest.mark.parametrize("kind", KINDS)
def test_deltas_tell_the_text_and_the_ids(server: Any, kind: Kind) -> None:
    body = body_of(kind, {"num": 8, "return_tokens": True})
    events = server.events(kind, body)
    found = [deltas(kind, event) for event in events]
    plain = json.loads(server.post(kind, body)[1])
    text = "".join(delta.text for delta in found)
    ids = [token for delta in found for token in delta.tokens or ()]
    if kind == "native":
        assert (text, ids) == (plain["content"], plain["tokens"])
    elif kind == "completions":
        assert (text, len(ids)) == (plain["choices"][0]["text"], 8)
    else:
        assert (text, ids) == (plain["choices"][0]["message"]["content"], [])
    assert [delta.finished for delta in found].count(True) == 1
    assert not any(delta.opaque for delta in found)
    assert found[-1].timings is not None


def test_a_forced_tool_call_is_opaque_and_arrives(tool_server: Any) -> None:
    body = body_of("chat", {**CALL, "num": 60})
    status, answer = tool_server.assembled("chat", body)
    assert status == 200
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
    assert any(deltas("chat", event).opaque for event in tool_server.events("chat", body))
