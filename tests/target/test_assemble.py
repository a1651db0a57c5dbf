"""What is assembled, and what happens when a stream is not what it should be.

That the assembled answer is llama-server's own is shown on the real one, in
test_assemble_real.py; the events here are shortened ones of that server.
"""

from typing import Any

import pytest

from specproxy.errors import TargetBroken
from specproxy.target.assemble import (
    Assembler,
    Kind,
    NotAssembled,
    TargetErrorReply,
    event_json,
)

KINDS: tuple[Kind, ...] = ("chat", "completions", "native")


def chat_event(delta: dict[str, Any], num_tokens: int | None = None, **more: Any) -> dict[str, Any]:
    choice = {"finish_reason": more.pop("finish_reason", None), "index": 0, "delta": delta}
    timings = {"timings": {"predicted_n": num_tokens}} if num_tokens else {}
    return {"choices": [choice], "id": "c", "object": "chat.completion.chunk", **timings, **more}


def chat_end(reason: str, num_tokens: int, **verbose: Any) -> list[dict[str, Any]]:
    return [
        chat_event({}, finish_reason=reason, **({"__verbose": verbose} if verbose else {})),
        {"choices": [], "usage": {"completion_tokens": num_tokens}, "timings": {"predicted_n": 1}},
    ]


def text_event(text: str, num_tokens: int | None = None, **more: Any) -> dict[str, Any]:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": more.pop("end", None)}
    timings = {"timings": {"predicted_n": num_tokens}} if num_tokens else {}
    return {"choices": [choice], **timings, **more}


def native_event(content: str, num_tokens: int, token: int = 5) -> dict[str, Any]:
    return {
        "index": 0,
        "content": content,
        "tokens": [token],
        "stop": False,
        "tokens_predicted": num_tokens,
    }


def native_end(num_tokens: int, stop_type: str) -> dict[str, Any]:
    return {
        "index": 0,
        "content": "",
        "tokens": [],
        "stop": True,
        "tokens_predicted": num_tokens,
        "generation_settings": {"stream": True, "seed": 1},
        "stop_type": stop_type,
    }


def assemble(kind: Kind, events: list[dict[str, Any]], **body: Any) -> dict[str, Any]:
    assembler = Assembler(kind, body)
    for event in events:
        assert not assembler.complete
        assembler.add(event)
    return assembler.result()


def test_chat_with_reasoning_and_a_growing_tool_call() -> None:
    def call(**function: str) -> dict[str, Any]:
        named = {"id": "i", "type": "function"} if "name" in function else {}
        return {"tool_calls": [{"index": 0, **named, "function": function}]}

    result = assemble(
        "chat",
        [
            chat_event({"role": "assistant", "content": None}),
            chat_event({"reasoning_content": "hm"}, 1),
            chat_event({"content": "a"}, 2),
            chat_event(call(name="get", arguments="")),
            chat_event(call(name="get_it", arguments="{"), 4),
            chat_event(call(arguments="}"), 5),
            *chat_end("tool_calls", 9, stop_type="eos"),
        ],
    )
    assert result == {
        "choices": [
            {
                "finish_reason": "tool_calls",
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "a",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "type": "function",
                            "function": {"name": "get_it", "arguments": "{}"},
                            "id": "i",
                        }
                    ],
                },
            }
        ],
        "object": "chat.completion",
        "usage": {"completion_tokens": 9},
        "id": "c",
        "timings": {"predicted_n": 1},
    }


def test_fields_that_nobody_knows_are_not_dropped() -> None:
    end = chat_end("stop", 1, stop_type="eos")
    with pytest.raises(NotAssembled, match="x_odd"):
        assemble("chat", [chat_event({"content": "a", "x_odd": 1}, 1), *end])
    assert assemble("chat", [chat_event({"content": "a", "refusal": None}, 1), *end])


def test_text_that_the_target_kept_is_not_forgotten() -> None:
    held = [native_event("a", 1), native_event("", 2)]
    with pytest.raises(NotAssembled, match="as the client sent it"):
        assemble("native", [*held, native_end(2, "limit")])
    assert assemble("native", [*held, native_end(2, "word")])["content"] == "a"
    assert assemble("native", [*held, native_end(2, "eos")])["content"] == "a"
    with pytest.raises(NotAssembled):  # the piece of a character has no event
        assemble("native", [native_event("a", 1), native_end(2, "eos")])


def test_chat_text_that_the_target_kept_is_not_forgotten() -> None:
    told = [chat_event({"content": "a"}, 1)]
    with pytest.raises(NotAssembled):
        assemble("chat", [*told, *chat_end("length", 2, stop_type="limit")])
    with pytest.raises(NotAssembled):
        assemble("chat", [*told, *chat_end("stop", 3, stop_type="eos")])
    for end in (
        chat_end("length", 1, stop_type="limit"),
        chat_end("stop", 2, stop_type="eos"),
        chat_end("stop", 9, stop_type="word"),
    ):
        message = assemble("chat", [*told, *end])["choices"][0]["message"]
        assert message == {"role": "assistant", "content": "a"}


def test_a_json_text_is_whole_when_its_grammar_ended_it() -> None:
    told = [chat_event({"content": '{"a":'}, 1), chat_event({"content": "1}"})]
    settings = {"grammar": "root ::= x", "grammar_lazy": False}
    end = chat_end("stop", 9, stop_type="eos", generation_settings=settings)
    assert assemble("chat", [*told, *end])["choices"][0]["message"]["content"] == '{"a":1}'
    with pytest.raises(NotAssembled):
        assemble("chat", [*told[:1], *end])


@pytest.mark.parametrize(
    ("reason", "num_tokens", "whole"),
    [("length", 2, True), ("length", 3, False), ("stop", 3, True), ("stop", 4, False)],
)
def test_a_target_without_the_extra_numbers_is_judged_by_its_events(
    reason: str, num_tokens: int, whole: bool
) -> None:
    events = [
        chat_event({"role": "assistant", "content": None}),
        chat_event({"content": "a"}),
        chat_event({"content": "b"}),
        *chat_end(reason, num_tokens),
    ]
    if whole:
        assert assemble("chat", events)["choices"][0]["message"]["content"] == "ab"
    else:
        with pytest.raises(NotAssembled):
            assemble("chat", events)


def test_legacy_reasoning_of_the_server_is_noticed() -> None:
    legacy = {"generation_settings": {"reasoning_in_content": True}, "stop_type": "eos"}
    with pytest.raises(NotAssembled, match="repeats the reasoning"):
        assemble("chat", [chat_event({"content": "a"}, 1), *chat_end("stop", 2, **legacy)])


def test_native_settings_and_ids() -> None:
    events = [native_event("a", 1, 7), native_event("b", 2, 8), native_end(2, "limit")]
    plain = assemble("native", events)
    assert plain["generation_settings"] == {"stream": False, "seed": 1}
    assert (plain["content"], plain["tokens"]) == ("ab", [])
    assert list(plain) == list(events[-1])
    assert assemble("native", events, return_tokens=True)["tokens"] == [7, 8]
    cut = [native_event("\u00e9", 2), native_end(2, "limit")]
    assert assemble("native", cut)["content"] == "\u00e9"
    with pytest.raises(NotAssembled, match="ids"):
        assemble("native", cut, return_tokens=True)


def test_completions_keep_the_final_events_keys() -> None:
    verbose = {"stop_type": "limit"}
    end = text_event("", end="length", usage={"completion_tokens": 2}, id="x", __verbose=verbose)
    result = assemble("completions", [text_event("a", 1), text_event("b", 2), end])
    assert list(result) == ["choices", "usage", "id"]
    assert result["choices"] == [
        {"text": "ab", "index": 0, "logprobs": None, "finish_reason": "length"}
    ]


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("native", []),
        ("native", [native_event("a", 1)]),
        ("chat", [chat_event({"content": "a"}, 1)]),
        ("chat", [chat_event({"content": "a"}, 1), chat_end("stop", 1)[0]]),
        ("completions", [text_event("a", 1), text_event("", end="stop")]),
    ],
)
def test_a_stream_that_ends_early_gives_no_answer(kind: Kind, events: list[dict[str, Any]]) -> None:
    with pytest.raises(TargetBroken, match="before the answer was complete"):
        assemble(kind, events)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("event", [{}, {"choices": 1}, {"choices": [{}]}, {"stop": False}])
def test_a_foreign_event_is_an_error_with_a_remedy(kind: Kind, event: dict[str, Any]) -> None:
    with pytest.raises(TargetBroken, match=r"target\.url"):
        Assembler(kind, {}).add(event)


@pytest.mark.parametrize(
    ("error", "status"),
    [({"code": 503, "message": "busy"}, 503), ({"message": "?"}, 500), ({"code": 7}, 500)],
)
def test_an_error_in_the_stream_keeps_its_status_and_body(
    error: dict[str, Any], status: int
) -> None:
    assembler = Assembler("chat", {})
    assembler.add(chat_event({"content": "a"}, 1))
    with pytest.raises(TargetErrorReply) as caught:
        assembler.add({"error": error})
    assert caught.value.status == status
    assert caught.value.body == {"error": error}
    assert not assembler.complete


def test_an_error_of_streaming_alone_is_not_the_answer() -> None:
    error = {"code": 500, "message": "Invalid diff: 'a' not found\nmore"}
    with pytest.raises(NotAssembled, match="'a' not found"):
        Assembler("chat", {}).add({"error": error})


def test_event_json() -> None:
    assert event_json('{"a": 1}') == {"a": 1}
    assert event_json("[DONE]") is None
    for data in ("[1]", "<html>", '{"a"'):
        with pytest.raises(TargetBroken, match="no JSON object"):
            event_json(data)
