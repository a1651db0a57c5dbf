"""The same requests directly and through the proxy: no difference that counts."""

import itertools
import random
from dataclasses import replace

import pytest

from specproxy.testing import drafter
from specproxy.testing.catalogue import exchanges
from specproxy.testing.differential import compare, differs, real_pair, scripted_pair
from specproxy.testing.rig import Answer
from specproxy.testing.toy_catalogue import toy_exchanges

ANSWER = Answer(200, "application/json", {"a": 1}, True, b"{}", {"content-type": "x"})


async def test_nothing_differs_whatever_the_draft_says() -> None:
    asked = [*exchanges(), *toy_exchanges()]
    assert len(asked) > 500  # the command asks all of them
    parts = [asked[::4], asked[2::4]]
    for part, draft in zip(
        parts, (drafter.perfect, drafter.noisy(0.2, random.Random(1))), strict=True
    ):
        async with scripted_pair(draft) as pair:
            tally = await compare(pair, part)
        assert not tally.differing, str(tally)
        assert tally.num_equal == tally.num_tried == len(part)
        assert tally.num_sped_up > 50
        assert f"requests tried: {len(part)}\n" in str(tally)


def test_what_counts_as_a_difference() -> None:
    assert differs(ANSWER, replace(ANSWER, raw=b"{ }")) is None
    for other in (
        replace(ANSWER, status=201),
        replace(ANSWER, content={"a": 2}),
        replace(ANSWER, whole=False),
        replace(ANSWER, headers={"content-type": "y"}),
    ):
        assert differs(ANSWER, other) is not None


def test_choices_may_mix_in_any_way_but_not_change() -> None:
    def stream(*events: tuple[int, str]) -> Answer:
        content = [{"choices": [{"index": index, "text": text}]} for index, text in events]
        return replace(ANSWER, content_type="text/event-stream", content=content)

    first, second = ((0, "a"), (0, "b"), (1, "c")), ((1, "c"), (0, "a"), (0, "b"))
    assert differs(stream(*first), stream(*second)) is None
    assert differs(stream(*first), stream((0, "b"), (0, "a"), (1, "c"))) is not None


@pytest.mark.real
async def test_nothing_differs_on_the_real_pool() -> None:
    async with real_pair() as pair:
        tally = await compare(pair, itertools.islice(exchanges(), 0, None, 9))
    assert not tally.differing, str(tally)
    assert tally.num_sped_up > 20
