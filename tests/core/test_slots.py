"""Slot leases: first come first served, a conversation comes back to its slot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specproxy.core.slots import Lease, SlotLeases


def granted(leases: SlotLeases, transcript: str = "") -> Lease:
    return leases.acquire(transcript, lambda: None)


def test_who_waits_is_served_in_order() -> None:
    leases = SlotLeases(1)
    order: list[int] = []
    held = [leases.acquire("", lambda i=i: order.append(i)) for i in range(4)]  # type: ignore[misc]
    assert (order, leases.num_waiting, leases.num_busy) == ([0], 3, 1)
    leases.release(held[2])  # gave up waiting
    for lease in (held[0], held[1], held[3]):
        leases.release(lease)
    assert order == [0, 1, 3]
    assert repr(leases) == "<SlotLeases busy=0/1 waiting=0>"


def test_release_is_idempotent() -> None:
    leases = SlotLeases(2)
    first, second, third = (granted(leases) for _ in range(3))
    leases.release(first)
    assert third.slot == first.slot
    leases.release(first)
    leases.release(first)
    assert leases.num_busy == 2
    leases.release(third)
    leases.release(second)
    assert leases.num_busy == 0


def test_a_conversation_gets_its_slot_back() -> None:
    leases = SlotLeases(3)
    talks = ["the sea and the moon", "an old stone", "a small bird"]
    slots = {}
    for talk in talks:
        lease = granted(leases, talk)
        slots[talk] = lease.slot
        leases.release(lease)
    assert len(set(slots.values())) == 3
    for talk in reversed(talks):
        lease = granted(leases, talk + ", and more")
        assert lease.slot == slots[talk]
        leases.release(lease)


def test_a_new_conversation_takes_the_slot_that_rested_longest() -> None:
    leases = SlotLeases(2)
    first, second = granted(leases, "aaaa"), granted(leases, "bbbb")
    leases.release(second)
    leases.release(first)
    assert granted(leases, "cccc").slot == second.slot


def test_a_short_common_beginning_is_no_conversation() -> None:
    """A shared system prompt must not evict the other conversation that has it."""
    leases = SlotLeases(2)
    system = "You are kind. "
    lease = granted(leases, system + "Tell me of the sea, " * 5)
    leases.release(lease)
    assert granted(leases, system + "Who are you?").slot != lease.slot


@given(
    num_slots=st.integers(1, 3),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.text("ab", max_size=4))),
)
def test_no_slot_is_given_twice_and_none_is_lost(
    num_slots: int, steps: list[tuple[bool, int, str]]
) -> None:
    leases = SlotLeases(num_slots)
    open_leases: list[Lease] = []
    arrived: list[Lease] = []
    for acquires, place, transcript in steps:
        if acquires:
            open_leases.append(granted(leases, transcript))
            arrived.append(open_leases[-1])
        elif open_leases:
            leases.release(open_leases.pop(place % len(open_leases)))
        held = [lease.slot for lease in open_leases if lease.slot is not None]
        assert len(set(held)) == len(held) == min(num_slots, len(open_leases)) == leases.num_busy
        assert leases.num_waiting == len(open_leases) - len(held)
        waiting = [lease.slot is None for lease in open_leases]
        assert waiting == sorted(waiting)  # nobody is overtaken
    for lease in arrived:
        leases.release(lease)
    assert (leases.num_busy, leases.num_waiting) == (0, 0)


# -- where the target chooses -------------------------------------------------------------------


def slots_of(leases: list[Lease]) -> list[int | None]:
    return [lease.slot for lease in leases]


def test_what_the_target_chooses_for_is_left_to_it() -> None:
    leases = SlotLeases(3)
    beside = leases.take(1, seeding=False)
    assert slots_of(beside) == [2]  # of equals the last; the probe has used the one for seeds
    assert {granted(leases).slot, granted(leases).slot} == {0, 1}
    assert leases.take(1, seeding=True) == []
    assert slots_of(leases.take(1, seeding=False)) == [3]
    assert leases.num_busy == 3
    waiting = granted(leases)
    leases.release(beside[0])
    assert waiting.slot == 2


def test_more_choices_take_the_first_slots() -> None:
    leases = SlotLeases(4)
    used = granted(leases, "a")
    leases.release(used)
    assert (used.slot, slots_of(leases.take(3, seeding=True))) == (0, [3, 0, 1])
    assert slots_of(leases.take(3, seeding=True)) == [2]


@pytest.mark.parametrize("num_choices", [0, -1, -5])
def test_no_choices_are_one(num_choices: int) -> None:
    leases = SlotLeases(4)
    assert len(leases.take(num_choices, seeding=True)) == 1
    assert leases.num_busy == 1


def test_the_slot_for_seeds_may_have_rested_longest() -> None:
    leases = SlotLeases(1)
    leases.release(granted(leases))
    (beside,) = leases.take(1, seeding=False)
    assert (beside.slot, leases.num_busy) == (1, 0)
    leases.release(beside)
    assert slots_of(leases.take(1, seeding=False)) == [0]


def test_a_slot_that_a_client_has_named_is_busy_as_long_as_any_answer_needs_it() -> None:
    leases = SlotLeases(2)
    lease = granted(leases)
    (named,) = leases.take_named(0)
    assert leases.take_named(5)[0].slot == 2  # the target counts round
    leases.release(lease)
    assert (leases.num_busy, granted(leases).slot) == (1, 1)
    waiting = granted(leases)
    leases.release(named)
    assert waiting.slot == 0


def test_slots_whose_use_is_known_need_not_be_used_again() -> None:
    leases = SlotLeases(2)
    lease = granted(leases, "a")
    assert leases.rivals(lease, seeding=False) == [1]  # nobody knows of the two
    leases.used([1])
    assert leases.rivals(lease, seeding=False) == []
    leases.release(lease)
    leases.used([2])
    lease = granted(leases, "ab")
    assert leases.rivals(lease, seeding=False) == [1]
    leases.release(lease)
    lease = granted(leases, "abc")
    assert leases.rivals(lease, seeding=True) == [1]
    assert leases.rivals(lease, seeding=False) == [1, 2]


@given(
    used=st.permutations(range(3)),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["named", "led", "taken", "release", "seed"]),
            st.integers(0, 9),
            st.text("ab", max_size=4),
        )
    ),
)
def test_the_target_takes_the_leased_slot(
    used: list[int], steps: list[tuple[str, int, str]]
) -> None:
    """Whatever it was used for before, and in whatever order it takes up what leads it."""
    leases, rested, held = SlotLeases(3), [*used, 3], list[Lease]()

    def use(slot: int | None) -> None:
        assert slot is not None
        rested.remove(slot)
        rested.append(slot)

    for step, place, transcript in steps:
        busy = {lease.slot for lease in held}
        if step == "seed" and 3 not in busy:
            leases.used([3])
            use(3)
        elif step == "release" and held:
            lease = held.pop(place % len(held))
            leases.release(lease)
            use(lease.slot)
        elif step == "taken":
            held += leases.take(1, seeding=False)
        elif step in ("named", "led") and leases.num_busy < 3:
            lease = granted(leases, transcript)
            if step == "led":
                rivals = leases.rivals(lease, seeding=False)
                for slot in rivals if place % 2 else reversed(rivals):
                    use(slot)
                leases.used(rivals)
                assert next(slot for slot in rested if slot not in busy) == lease.slot
            held.append(lease)
    for lease in held:
        leases.release(lease)
    assert (leases.num_busy, leases.num_waiting) == (0, 0)
