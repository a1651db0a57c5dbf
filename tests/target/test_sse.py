"""The parser's promise: the same bytes give the same events, however they were cut."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.errors import TargetBroken
from specproxy.target.sse import Event, SSEParser


def whole(stream: bytes) -> list[Event]:
    return SSEParser().feed(stream)


def feed_in_steps(parser: SSEParser, stream: bytes, step: int) -> None:
    for start in range(0, len(stream), step):
        parser.feed(stream[start : start + step])


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\r\n\r\n", ["a"]),
        (b"data: a\r\r", ["a"]),
        (b"data: a\r\n\rdata: b\n\r\n", ["a", "b"]),
        (b"data: a\ndata: b\ndata\n\n", ["a\nb\n"]),
        (b"data\n\ndata:\n\ndata: \n\n", []),
        (b": ping\n\n:\n\ndata: a\n: in between\n\n", ["a"]),
        (b"id: 7\nretry: 3\nnonsense\ndata: a\n\n", ["a"]),
        (b"data: a:b: c\n\n", ["a:b: c"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        ("data: caf\u00e9 \U0001f600\n\n".encode(), ["caf\u00e9 \U0001f600"]),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"data: x\x0by\xc2\x85z\n\n", ["x\x0by\x85z"]),
        (b"data: not ended\n", []),
        (b"", []),
    ],
)
def test_events_of_a_stream(stream: bytes, data: list[str]) -> None:
    assert [event.data for event in whole(stream)] == data


def test_name_is_kept_for_one_event_only() -> None:
    assert whole(b"event: error\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n") == [
        Event("error", "a"),
        Event("message", "b"),
        Event("message", "c"),
    ]


def test_comments_are_counted() -> None:
    parser = SSEParser()
    parser.feed(b":\n\n: ping\n\ndata: a\n\n")
    assert parser.num_comments == 2
    assert repr(parser) == "<SSEParser pending=0B comments=2>"


@pytest.mark.parametrize(
    ("stream", "partial"),
    [
        (b"", False),
        (b"data: a\n\n", False),
        (b"data: a\r\n\r\n", False),
        (b"data: a\n\n: ping\n", False),
        (b"data: a\n", True),
        (b"data: a", True),
        (b"event: x\n", True),
        (b"data: a\n\nd", True),
    ],
)
def test_finish_says_whether_an_event_was_cut_off(stream: bytes, partial: bool) -> None:
    parser = SSEParser()
    parser.feed(stream)
    assert parser.finish() is partial


LINES = st.one_of(
    st.builds("data:{}".format, st.text(max_size=12)),
    st.builds("data: {}".format, st.text(max_size=12)),
    st.builds("event: {}".format, st.text(max_size=4)),
    st.just(": ping"),
    st.just(""),
    st.text(max_size=6),
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\r"])), max_size=20).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


@given(stream=STREAMS | st.binary(max_size=60), data=st.data())
def test_any_split_gives_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    parser, reference = SSEParser(), SSEParser()
    events: list[Event] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        events += parser.feed(stream[start:end])
    assert events == reference.feed(stream)
    assert parser.finish() == reference.finish()
    assert parser.num_comments == reference.num_comments


@given(stream=STREAMS | st.binary(max_size=60))
def test_byte_by_byte_gives_the_same_events(stream: bytes) -> None:
    parser = SSEParser()
    events = [event for byte in stream for event in parser.feed(bytes([byte]))]
    assert events == whole(stream)


@given(texts=st.lists(st.text(min_size=1), max_size=6))
def test_json_of_a_server_survives(texts: list[str]) -> None:
    stream = "".join(f"data: {json.dumps(t, ensure_ascii=False)}\n\n" for t in texts).encode()
    assert [json.loads(event.data) for event in whole(stream)] == texts


@pytest.mark.parametrize(
    "stream",
    [
        b"data: 0123456789abcdef",
        b"data: 0123456789abcdef\n\n",
        b"data: 0\n" * 5,
        b"nonsense without an end",
    ],
)
@pytest.mark.parametrize("step", [1, 5, 100])
def test_an_event_too_large_is_an_error(stream: bytes, step: int) -> None:
    parser = SSEParser(max_event_bytes=20)
    with pytest.raises(TargetBroken, match=r"more than 20 bytes.*target\.url"):
        feed_in_steps(parser, stream, step)


def test_the_bound_is_per_event() -> None:
    parser = SSEParser(max_event_bytes=20)
    assert sum(len(parser.feed(b"data: 0123456789\n\n")) for _ in range(100)) == 100


def test_a_line_in_many_chunks_is_not_copied_for_each() -> None:
    parser = SSEParser()
    parser.feed(b"data: ")
    num_chunks, size = 20_000, 100
    tracemalloc.start()
    try:
        for _ in range(num_chunks):
            parser.feed(b"x" * size)
        (event,) = parser.feed(b"\n\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(event.data) == num_chunks * size
    # Pieces, one joined line, its value, the event: a few copies, not one for each chunk.
    assert peak < 8 * num_chunks * size
