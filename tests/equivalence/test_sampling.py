"""When a sampled answer that departs counts as rounding, and when it does not."""

from dataclasses import replace
from typing import Any

import pytest

from specproxy.bench.equality import Candidate, Step
from specproxy.equivalence.check import Extent
from specproxy.equivalence.sampling import MOST_TIES, drawn_verdict, seeded
from specproxy.testing import Language


def step(taken: str, *likeliest_first: str) -> Step:
    """The tokens of a step, each half as likely as the one before."""
    candidates = {
        piece: Candidate(number, piece.encode(), -0.7 * number)
        for number, piece in enumerate(likeliest_first)
    }
    mine = candidates[taken]
    return Step(mine, tuple(one for one in candidates.values() if one != mine), (mine.token,))


STEPS = [step(" sea", " sea", " sun"), step(" b", " a", " b", " c", " d"), step(".", ".", "!")]


@pytest.mark.parametrize(
    ("said", "num_ties", "identical"),
    [
        (" sea b.", 0, True),
        (" sea a and more", 1, True),
        (" sea c", 1, True),
        (" sea d", 0, False),
        (" sea x", 0, False),
        (" sun", 1, True),
        ("", 0, False),
    ],
)
def test_a_neighbour_of_the_draw_is_a_tie(said: str, num_ties: int, identical: bool) -> None:
    verdict = drawn_verdict(STEPS, said.encode())
    assert (len(verdict.ties), verdict.identical) == (num_ties, identical)


def test_of_all_tokens_that_fit_the_text_one_must_be_a_neighbour() -> None:
    steps = [step(" Maya", " the", " a", " there", " Maya")]
    verdict = drawn_verdict(steps, b" there's no")
    assert verdict.identical
    assert len(verdict.ties) == 1
    assert not drawn_verdict(steps, b" the sea").identical


async def test_the_same_seeds_give_the_same_answers(start_seeding: Any) -> None:
    async with start_seeding(Language(mean_length=60)) as pair:
        result = await seeded(pair, Extent(num_tokens=16, num_seeds=4))
    assert result.passed
    assert result.num_ties == 0
    assert "4 seeds, 4 texts" in result.evidence


class Drawn(Language):
    """A language whose draws fall to the next likely token wherever there is one."""

    def distribution(self, context: Any) -> Any:
        first, *others = super().distribution(context)
        if not others:
            return (first,)
        (second, share), *rest = others
        return ((first[0], share), (second, first[1]), *rest)


async def test_a_sampler_that_always_departs_is_no_rounding(start_seeding: Any) -> None:
    language = Language(mean_length=60)
    other = Drawn(mean_length=60)
    assert replace(other).key == language.key
    async with start_seeding(language, control=other) as pair:
        result = await seeded(pair, Extent(num_tokens=24, num_seeds=6))
    assert not result.passed
    assert result.num_ties > MOST_TIES * 6 or not result.identical
