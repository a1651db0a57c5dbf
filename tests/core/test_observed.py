"""What sessions report adds up: by origin, pass, position, kind and time."""

import pytest

from specproxy.core.alone import Basis
from specproxy.core.observed import NUM_DECISIONS, NUM_PROMPT, Observed
from specproxy.core.origins import NUM_KEPT, Origin

LINE, BRANCH, MISSED, UNDRAFTED = Origin.LINE, Origin.BRANCH, Origin.MISSED, Origin.UNDRAFTED


def origins_of(observed: Observed, kind: str = "chat") -> dict[Origin, int]:
    return {origin: count for (of, origin), count in observed.said.items() if of == kind}


def test_a_pass_is_counted_when_it_has_brought_its_last_token() -> None:
    observed = Observed()
    answer = observed.begin("chat", 10.0)
    answer.passed(11.0)
    answer.said_tokens([1, 2], [LINE, LINE])
    answer.said_tokens([3], [MISSED])
    assert observed.total.num_passes == 0
    answer.passed(11.5)
    assert (observed.total.num_passes, observed.total.num_tokens) == (1, 3)
    answer.said_tokens([4, 5], [LINE, BRANCH])
    answer.end(20.0)
    assert observed.running == {}
    assert origins_of(observed) == {LINE: 3, BRANCH: 1, MISSED: 1}
    assert observed.total.num_answers == 1
    assert observed.total.tokens_per_pass == 2.5
    assert observed.total.acceptance_rate == 0.8
    # the first pass reads the prompt: its time is no time of decoding
    assert (observed.total.num_timed, observed.total.decode_s) == (2, 0.5)
    assert observed.total.tokens_per_s == 4.0
    assert observed.pass_tokens.num_values == 2
    assert observed.token_gap_s.num_values == 2
    assert observed.pass_time_s.mean == 0.5


@pytest.mark.parametrize("has_pool", [True, False])
def test_what_came_amid_a_pass_the_targets_pool_has_proposed(has_pool: bool) -> None:
    observed = Observed()
    answer = observed.begin("chat", 0.0, has_pool=has_pool)
    answer.passed(1.0)
    answer.said_tokens([1], [MISSED])
    answer.said_tokens([2], [UNDRAFTED])
    answer.said_tokens([3], [UNDRAFTED])
    answer.passed(2.0)
    answer.said_tokens([4], [MISSED])
    answer.end(3.0)
    first = [Origin.POOL, Origin.POOL] if has_pool else [MISSED, UNDRAFTED]
    assert [origin for _, origin in answer.said] == [*first, UNDRAFTED, MISSED]
    pooled = {Origin.POOL: 2, UNDRAFTED: 1, MISSED: 1}
    assert origins_of(observed) == (pooled if has_pool else {MISSED: 2, UNDRAFTED: 2})


def test_positions_start_with_the_pass() -> None:
    observed = Observed()
    answer = observed.begin("chat", 0.0)
    for second, origins in enumerate([[LINE, LINE, MISSED], [BRANCH, MISSED], [UNDRAFTED]]):
        answer.passed(float(second))
        answer.said_tokens(range(len(origins)), origins)
    answer.end(9.0)
    assert observed.positions.as_json() == [[2, 2], [1, 2], [0, 1]]
    assert observed.record.positions.as_json() == observed.positions.as_json()
    assert observed.num_drafts == 2


def test_times_by_phase() -> None:
    observed = Observed()
    answer = observed.begin("native", 0.0)
    answer.passed(1.0, duration_s=0.9)
    answer.said_tokens([1])
    answer.drafted(4, 0.2)
    answer.drafted(0, 0.1)
    answer.passed(1.5, duration_s=0.3, waited_s=0.15)
    answer.said_tokens([2])
    answer.end(2.0)
    observed.seeded(2.0, 0.25)
    observed.seeded(2.0, 0.25, failed=True)
    observed.waited(2.0, 0.05)
    total = observed.total
    assert (total.draft_s, total.seed_s) == (pytest.approx(0.3), 0.5)
    assert (total.pass_s, total.wait_s) == (0.3, pytest.approx(0.2))
    assert observed.num_seeds_failed == 1
    assert observed.draft_token_s.num_values == 4
    assert observed.draft_token_s.mean == pytest.approx(0.05)


def test_windows_forget_and_the_day_does_not() -> None:
    observed = Observed(epoch_s=1_000_000.0)
    for minute in (0, 30):
        answer = observed.begin("chat", 60.0 * minute)
        answer.passed(60.0 * minute)
        answer.said_tokens([1, 2], [LINE, MISSED])
        answer.end(60.0 * minute + 1.0)
    windows = observed.windows(60.0 * 30 + 30.0)
    assert [windows[name].num_answers for name in ("1m", "15m", "1h", "24h")] == [1, 1, 2, 2]
    later = observed.windows(60.0 * 40)
    assert [later[name].num_answers for name in ("1m", "15m", "1h", "24h")] == [0, 1, 2, 2]


def test_memory_is_bounded() -> None:
    observed = Observed()
    answer = observed.begin("chat", 0.0)
    answer.reads(range(10_000))
    for token in range(3 * NUM_KEPT):
        answer.passed(float(token))
        answer.said_tokens([token], [LINE])
    for second in range(100):
        observed.decided(float(second), "starting", "nobody knows")
    assert (len(answer.prompt), answer.num_prompt) == (NUM_PROMPT, 10_000)
    assert len(list(answer.said)) == NUM_KEPT
    assert answer.said.num_dropped == 2 * NUM_KEPT
    assert len(observed.decisions) == NUM_DECISIONS
    assert len(observed.recent.points(3 * NUM_KEPT)) <= observed.recent.num_periods


def test_the_target_alone_is_measured_where_passes_are_plain_and_else_estimated() -> None:
    pace = Observed().alone
    assert pace.alone() is None
    for index in range(40):
        pace.passed(0.2 if index % 5 == 0 else 0.8, plain=False)
    alone = pace.alone()
    assert alone is not None
    assert (alone.basis, alone.tokens_per_s) == (Basis.ESTIMATED, pytest.approx(5.0))
    for _ in range(4):
        pace.passed(0.25, plain=True)
    alone = pace.alone()
    assert alone is not None
    assert (alone.basis, alone.tokens_per_s) == (Basis.MEASURED, pytest.approx(4.0))
