"""Bookkeeping of the KV cache's rooms."""

from specproxy.core.rooms import DEAR_TOKENS, Room, Rooms


def settle(rooms: Rooms, owner: int, tokens: list[int]) -> Room:
    room = rooms.acquire(owner, tokens)
    assert room is not None
    room.tokens[:] = tokens
    rooms.release(room)
    return room


def test_an_owner_comes_back_to_its_room() -> None:
    rooms = Rooms(3)
    first = settle(rooms, 1, [1, 2])
    settle(rooms, 2, [3])
    assert rooms.acquire(1, [9]) is first


def test_the_least_recently_used_idle_room_is_taken() -> None:
    rooms = Rooms(2)
    first, second = settle(rooms, 1, [1]), settle(rooms, 2, [2])
    settle(rooms, 1, [1])
    taken = rooms.acquire(3, [3])
    assert taken is second
    assert taken.owner == 3
    assert rooms.acquire(2, [2]) is first
    assert rooms.acquire(4, [4]) is None
    assert repr(rooms) == "<Rooms 2: 2 owned, 2 busy, 2 cells>"


def test_a_closed_conversation_is_continued_by_the_next() -> None:
    rooms = Rooms(3)
    settle(rooms, 1, [1, 2, 3, 4])
    old = settle(rooms, 2, [1, 2, 5, 6])
    rooms.vacate(1)
    rooms.vacate(2)
    assert rooms.acquire(3, [1, 2, 5, 6, 7, 8]) is old


def test_a_common_header_is_no_reason_to_lose_a_conversation() -> None:
    rooms = Rooms(2)
    old = settle(rooms, 1, [1, 2, *range(50, 90)])
    rooms.vacate(1)
    assert rooms.acquire(2, [1, 2, 3]) is not old


def test_free_rooms_are_emptied_before_owned_ones_and_busy_ones_never() -> None:
    rooms = Rooms(3)
    owned, free = settle(rooms, 1, [1]), settle(rooms, 2, [2])
    rooms.vacate(2)
    busy = rooms.acquire(3, [3])
    assert busy is not None
    busy.tokens.append(3)
    assert rooms.evictable() is free
    free.tokens.clear()
    assert rooms.evictable() is owned
    owned.tokens.clear()
    assert rooms.evictable() is None


def test_a_branch_gives_up_its_room_before_a_line_does() -> None:
    rooms = Rooms(4)
    lines = [settle(rooms, owner, [owner, *range(100, 1100)]) for owner in (1, 2)]
    branch = settle(rooms, 11, [*lines[0].tokens[:990], 7, 8])
    settle(rooms, 12, [*lines[1].tokens[:990], 9])
    for owner in (1, 2):
        settle(rooms, owner, [*lines[owner - 1].tokens, *range(80)])
    third = settle(rooms, 3, [3, *range(100, 1100)])
    assert third is branch  # used longest ago of those that others hold
    assert rooms.acquire(1, [1]) is lines[0]
    assert rooms.acquire(2, [2]) is lines[1]


def test_no_open_sequence_loses_what_only_it_holds() -> None:
    rooms = Rooms(2)
    for owner in (1, 2):
        settle(rooms, owner, [owner, *range(DEAR_TOKENS)])
    assert rooms.acquire(3, [3]) is None
    assert not rooms.may_wait([3])
    rooms.vacate(1)
    assert rooms.acquire(3, [3]) is not None
    assert rooms.acquire(4, [4]) is None


def test_a_busy_room_may_be_waited_for_where_it_holds_little() -> None:
    rooms = Rooms(1)
    room = rooms.acquire(1, [1])
    assert room is not None
    assert rooms.acquire(2, [2]) is None
    assert rooms.may_wait([3])
    room.tokens[:] = range(DEAR_TOKENS + 1)
    assert not rooms.may_wait([3])
    rooms.vacate(1)
    assert rooms.may_wait([3])


def test_where_nothing_can_be_cut_a_room_serves_with_all_its_tokens_or_none() -> None:
    rooms = Rooms(3, can_cut=False)
    settle(rooms, 1, [1, 2, 3, 4])
    part = settle(rooms, 2, [1, 2])
    new = rooms.acquire(3, [1, 2, 3, 9])
    assert new is not None
    assert rooms.best_donor(new, [1, 2, 3, 9]) == (part, 2)
    assert rooms.best_donor(new, [1, 9])[1] == 0
    rooms.can_cut = True
    assert rooms.best_donor(new, [1, 2, 3, 9])[1] == 3


def test_of_closed_sequences_the_doubles_go_first() -> None:
    rooms = Rooms(4)
    old = settle(rooms, 1, [1, *range(100)])
    line = settle(rooms, 2, [2, *range(100)])
    branch = settle(rooms, 3, [2, *range(90)])
    for owner in (1, 2):
        rooms.vacate(owner)
    assert rooms.surplus(1) is line  # (the branch, still open, holds nearly all of it)
    rooms.vacate(3)
    assert rooms.surplus(3) is None
    branch.tokens.clear()
    assert rooms.surplus(1) is old


def test_the_branches_of_an_answer_share_its_room_where_there_is_no_other() -> None:
    rooms = Rooms(1)
    line = settle(rooms, 1, [*range(100)])
    assert rooms.acquire(2, [*range(90), 7]) is line
    rooms.release(line)
    assert rooms.acquire(1, [*range(100), 1]) is line
    rooms.release(line)
    assert rooms.acquire(3, [*range(50)]) is None
