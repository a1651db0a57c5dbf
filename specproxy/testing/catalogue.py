"""Requests over everything that clients send: for asking two servers the same.

Invariant: the same seed gives the same requests. Each can be sent to a real llama-server, and
its answer there depends on nothing that was asked before.
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any

from specproxy.testing.exchange import Exchange, Json


def exchanges(seed: int = 1) -> Iterator[Exchange]:
    """All of them; generation first."""
    rng = random.Random(seed)
    for path, plain, shapes, options in (
        ("/v1/chat/completions", _chat("Tell me of the sea"), CHATS, CHAT_OPTIONS),
        ("/v1/completions", {"prompt": "The sea"}, PROMPTS, TEXT_OPTIONS),
        ("/completion", {"prompt": "The sea"}, PROMPTS, NATIVE_OPTIONS),
        ("/v1/responses", {"input": "Tell me of the sea"}, RESPONSES, [{}]),
        ("/v1/messages", _chat("Tell me of the sea"), MESSAGES, MESSAGES_OPTIONS),
        ("/infill", {"prompt": "The"}, INFILLS, [{}]),
    ):
        limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
        asked = [*shapes, *({**plain, **option} for option in [*SAMPLINGS, *options])]
        for body, stream in itertools.product(asked, (True, False, None)):
            count = rng.choice((3, 8, 20))
            switch = {} if stream is None else {"stream": stream}
            yield Exchange("POST", path, {limit: count, "temperature": 0, **body, **switch})
    yield from OTHERS


def _chat(*texts: str, **more: Any) -> Json:
    roles = itertools.cycle(("user", "assistant"))
    return {
        "messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)],
        **more,
    }


def said(role: str, content: Any, **more: Any) -> Json:
    """A message."""
    return {"role": role, "content": content, **more}


def parts(*texts: str) -> list[Json]:
    """The content of a message in parts."""
    return [{"type": "text", "text": text} for text in texts]


SAMPLINGS: list[Json] = [
    {},
    {"temperature": 0.0, "seed": 42},
    {
        "temperature": 0,
        "top_k": 5,
        "min_p": 0.1,
        "dry_multiplier": 0.0,
        "x_unknown": {"a": [1, None]},
    },
    {"temperature": 0, "logit_bias": [], "user": "me", "cache_prompt": False},
    {"temperature": 0, "presence_penalty": 0.0, "frequency_penalty": 0, "top_p": 1.0},
    {"max_tokens": 0},
    {"max_tokens": 1},
    {"max_tokens": 2},
    {"stop": ["."]},
    {"stop": ["zzz", " the", "a"]},
    {"stop": " sea"},
    {"stop": None},
    {"stop": []},
    {"stop": ["a", "b", "c", "d", "e"]},
    {"temperature": "warm"},
    {"stop": 5},
]
CHATS: list[Json] = [
    {"messages": messages}
    for messages in (
        [said("system", "Be short."), said("user", "Hi")],
        [said("user", parts("Hi", "there"))],
        [said("system", parts("Be short.")), said("user", parts("Hi"))],
        [said("user", [])],
        [said("user", "Hi"), said("assistant", "Hello, I")],
        [said("user", "Hi"), said("assistant", parts("Hello, I"))],
        [
            said("user", "Hi"),
            said("assistant", "Hello", reasoning_content="Hm"),
            said("user", "So?"),
        ],
        [said("user", "Hi 😀 naïve 日本"), said("assistant", "é"), said("user", "🚀")],
        [],
        [{"role": "user"}],
        [{"content": "Hi"}],
        "Hi",
    )
]
CHAT_OPTIONS: list[Json] = [
    {"n": 2},
    {"n": 3, "max_tokens": 4},
    {"n": 1},
    {"stream_options": {"include_usage": True}},
    {"stream_options": {"include_usage": False}},
    {"stream_options": None},
    {"max_completion_tokens": 5},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"reasoning_format": "none"},
    {"timings_per_token": True},
    {"model": "another", "metadata": {"a": "b"}},
    {"id_slot": 1},
    {"tools": [], "tool_choice": "none"},
]
PROMPTS: list[Json] = [
    {"prompt": prompt}
    for prompt in (
        "s",
        ["s"],
        ["a", "b"],
        [301, 302, 303],
        [[301, 302], [303]],
        [[301]],
        [301, "s"],
        [],
    )
]
TEXT_OPTIONS: list[Json] = [
    {"n": 2},
    {"stream_options": {"include_usage": True}},
    {"model": ""},
    {"return_tokens": True},
]
NATIVE_OPTIONS: list[Json] = [
    {"return_tokens": True},
    {"response_fields": ["content", "tokens_predicted"]},
    {"n_predict": 6},
    {"n_keep": 2, "t_max_predict_ms": 100000},
    {"samplers": ["top_k", "temperature"]},
    {"id_slot": 0},
]
RESPONSES: list[Json] = [
    {"input": "Hi", "instructions": "Be short."},
    {"input": [said("user", "Hi", type="message")]},
    {"input": [said("user", [{"type": "input_text", "text": "Hi"}])]},
    {"instructions": "No input."},
]
MESSAGES: list[Json] = [
    {"messages": [said("user", "Hi")], "system": "Be short."},
    {"messages": [said("user", parts("Hi"))], "system": parts("Be", " short.")},
    {"system": "No messages."},
]
MESSAGES_OPTIONS: list[Json] = [
    {"stop_sequences": [" the"]},
    {"thinking": {"type": "disabled"}},
    {"metadata": {"user_id": "me"}},
]
INFILLS: list[Json] = [{"input_prefix": "It was", "input_suffix": " sea", "prompt": ""}]
OTHERS: list[Exchange] = [
    *(
        Exchange("POST", path, {"input": given, **more})
        for path in ("/v1/embeddings", "/embeddings")
        for given in ("Hi", ["Hi", "It", "sea"])
        for more in ({}, {"encoding_format": "base64"}, {"encoding_format": "float"})
    ),
    *(
        Exchange("POST", path, {"query": "a", "documents": ["b", "c"]})
        for path in ("/rerank", "/v1/rerank")
    ),
    Exchange("POST", "/rerank", {}),
    *(
        Exchange("POST", "/tokenize", {"content": text, **more})
        for text in ("", "Hello world", "naïve 😀<think>")
        for more in ({}, {"add_special": True}, {"with_pieces": True}, {"parse_special": False})
    ),
    Exchange("POST", "/detokenize", {"tokens": [301, 302, 303]}),
    Exchange("POST", "/detokenize", {"tokens": []}),
    Exchange("POST", "/detokenize", {"tokens": ["x"]}),
    Exchange("POST", "/apply-template", {"messages": [said("user", "Hi")]}),
    Exchange("POST", "/apply-template", {}),
    Exchange("POST", "/v1/messages/count_tokens", {"messages": [said("user", "Hi")]}),
    Exchange("POST", "/v1/messages/count_tokens?beta=true", {"messages": [said("user", "Hi")]}),
    *(
        Exchange("GET", path)
        for path in ("/health", "/v1/health", "/v1/models", "/models", "/lora-adapters")
    ),
    *(Exchange("HEAD", path) for path in ("/health", "/v1/models", "/nowhere")),
    *(Exchange("OPTIONS", path) for path in ("/v1/chat/completions", "/health")),
    *(
        Exchange(method, "/nowhere", b"" if method != "GET" else None)
        for method in ("GET", "POST", "PUT")
    ),
    Exchange("DELETE", "/v1/models"),
    Exchange("POST", "/props", {}),
    Exchange("POST", "/lora-adapters", []),
    *(
        Exchange("POST", path, raw)
        for path in ("/v1/chat/completions", "/v1/completions", "/completion", "/tokenize")
        for raw in (b"", b"{", b"null", b"[]", b'"x"', b"{}", b'{"prompt": "\xff"}')
    ),
]
"""Routes that generate nothing, and requests that are none."""
