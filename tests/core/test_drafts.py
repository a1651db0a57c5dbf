"""Messages of the draft channel: what one side writes the other reads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.drafts import (
    Ended,
    Grow,
    GrownNode,
    Hello,
    Message,
    Passed,
    Prompt,
    decode,
    encode,
)

ids = st.integers(0, 2**31 - 1)
tokens = st.lists(ids, max_size=20)
names = st.text(max_size=8)
nodes = st.builds(
    GrownNode,
    ids,
    st.none() | ids,
    ids,
    ids,
    st.floats(0, 1).map(lambda share: round(share, 4)),
)
seconds = st.floats(0, 1e6)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, names, ids),
    st.builds(Prompt, names, tokens),
    st.builds(Passed, names, tokens, ids, ids, ids, seconds, seconds),
    st.builds(Ended, names),
    st.builds(Grow, names, st.lists(nodes, max_size=20), ids),
)


@given(messages)
def test_a_message_survives_the_way(message: Message) -> None:
    assert decode(encode(message)) == message


@given(messages)
def test_a_message_is_one_line_of_json_that_says_its_type(message: Message) -> None:
    frame = encode(message)
    assert "\n" not in frame
    assert json.loads(frame)["type"]


def test_what_a_later_version_adds_is_passed_over() -> None:
    assert decode('{"type":"end","answer":"7","why":"so"}') == Ended("7")
    assert decode('{"type":"sing","song":"la"}') is None


@pytest.mark.parametrize(
    "frame",
    ["", "[]", "7", "{}", '{"type":"end"}', '{"type":"grow","answer":"1","nodes":[[1,2]]}', "{"],
)
def test_anything_else_is_refused(frame: str) -> None:
    with pytest.raises(ValueError, match="no message of the draft channel"):
        decode(frame)
