"""Bookkeeping of the KV cache's rooms."""

from specproxy.core.rooms import Room, Rooms


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
