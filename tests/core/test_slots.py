"""Slot leases: first come first served, a conversation comes back to its slot."""

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
