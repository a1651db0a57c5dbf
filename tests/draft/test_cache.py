"""The draft's cache over a native one that keeps books: nothing is read twice, nothing mixed."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from specproxy.draft.cache import MAX_LEFT_ROOMS, DraftCache
from specproxy.draft.jobs import Job
from specproxy.draft.reach import Reach


class Books:
    """In place of `Context`: which tokens each sequence id holds."""

    def __init__(self, *, can_cut: bool = True) -> None:
        self.can_cut = can_cut
        self.cells: dict[int, list[int]] = {}
        self.num_copied = 0

    def seq_rm(self, sequence: int, start: int = 0, end: int = -1) -> bool:
        cells = self.cells.setdefault(sequence, [])
        if 0 < start < len(cells) and not self.can_cut:
            return False
        del cells[start:]
        return True

    def seq_cp(self, source: int, destination: int, start: int, end: int) -> None:
        assert self.can_cut or end == len(self.cells[source])
        self.cells[destination] = self.cells[source][start:end]
        self.num_copied += 1


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    opened = asyncio.new_event_loop()
    yield opened
    opened.close()


class Draft:
    """A cache and who reads through it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, num_rooms: int = 4, **more: Any) -> None:
        limit = more.pop("limit", 4096)
        self.books = Books(**more)
        self.cache = DraftCache(self.books, num_rooms, Reach(limit))  # type: ignore[arg-type]
        self._loop = loop

    def job(self, owner: int, tokens: list[int]) -> Job:
        return Job(owner, tokens, 4, 100_000, self._loop, self._loop.create_future())

    def read(self, owner: int, tokens: list[int]) -> list[int]:
        """Read all of a context; returns what of it was read, as it was not cached."""
        job = self.job(owner, tokens)
        assert self.cache.enter(job)
        assert job.room is not None
        read = list(job.pending)
        job.room.tokens += read
        self.books.cells.setdefault(job.room.sequence, []).extend(read)
        assert job.room.tokens == job.tokens == self.books.cells[job.room.sequence]
        self.cache.leave(job)
        return read


def test_a_branch_begins_with_what_its_line_has_read(loop: asyncio.AbstractEventLoop) -> None:
    draft = Draft(loop)
    line = list(range(1000))
    assert draft.read(1, line) == line
    assert draft.read(2, [*line[:990], 7]) == [7]
    assert draft.read(2, [*line[:995], 8]) == [8]
    assert draft.read(1, [*line, 1000]) == [1000]


def test_of_what_a_branch_shares_again_it_learns_only_what_is_new(
    loop: asyncio.AbstractEventLoop,
) -> None:
    draft = Draft(loop)
    draft.read(1, list(range(1000)))
    for tokens, num_known in (([*range(500), 7], 0), ([*range(900), 8], 500)):
        job = draft.job(2, tokens)
        assert draft.cache.enter(job)
        assert job.room is not None
        lookup = draft.cache._lookups[job.room.sequence]
        assert lookup._num_learned == num_known
        job.room.tokens += job.pending
        draft.cache.guess(job.room, [], 1)
        assert lookup._num_learned == len(tokens)
        draft.cache.leave(job)


def test_more_answers_than_rooms_keep_their_contexts(loop: asyncio.AbstractEventLoop) -> None:
    draft = Draft(loop, num_rooms=4)
    texts = {owner: [owner, *range(100, 1100)] for owner in (1, 2, 3, 4)}
    for owner in (1, 2, 3):
        assert len(draft.read(owner, texts[owner])) == 1001
        assert len(draft.read(10 + owner, [*texts[owner], 7])) == 1
    assert len(draft.read(4, texts[4])) == 1001
    for _ in range(5):
        for owner in (1, 2, 3, 4):
            texts[owner] += range(4)
            assert len(draft.read(owner, texts[owner])) < 12
            assert len(draft.read(10 + owner, [*texts[owner][:-2], 7])) < 12
    fifth = draft.job(5, [5, *range(1000)])
    assert not draft.cache.enter(fifth)  # it would cost another its context
    assert not draft.cache.may_wait(fifth)
    draft.cache.vacate(1)
    draft.cache.vacate(11)
    assert draft.cache.enter(fifth)


def test_a_recurrent_cache_shares_whole_sequences_only(loop: asyncio.AbstractEventLoop) -> None:
    draft = Draft(loop, can_cut=False)
    draft.read(1, list(range(1, 10)))
    assert draft.read(2, [1, 2, 3, 20]) == [1, 2, 3, 20]
    assert draft.books.num_copied == 0
    assert draft.read(3, [1, 2, 3, 20, 21]) == [21]
    assert draft.books.num_copied == 1
    assert draft.read(2, [1, 2, 3, 30]) == [1, 2, 3, 30]  # a miss


def test_what_closed_sequences_left_is_kept_in_a_few_rooms(
    loop: asyncio.AbstractEventLoop,
) -> None:
    draft = Draft(loop, num_rooms=16)
    for owner in range(1, 13):
        draft.read(owner, [owner, *range(200)])
    for owner in range(1, 13):
        draft.cache.vacate(owner)
    held = [room for room in draft.cache._rooms if room.tokens]
    assert len(held) == MAX_LEFT_ROOMS
    assert draft.read(20, [12, *range(201)]) == [200]
    assert all(draft.books.cells[room.sequence] == room.tokens for room in held)


def test_of_a_long_context_the_end_is_read_and_not_read_again(
    loop: asyncio.AbstractEventLoop,
) -> None:
    draft = Draft(loop, limit=1024)
    line = list(range(3000))
    assert draft.read(1, line[:900]) == line[:900]
    num_read = 0
    for end in range(904, 3000, 4):
        new = draft.read(1, line[:end])
        assert new[-1] == end - 1
        num_read += len(new)
        # A miss just past the limit, and a branch off the line a little before its end.
        num_read += len(draft.read(1, [*line[: end - 8], 7]))
        num_read += len(draft.read(2, [*line[: end - 12], 8]))
    num_rounds = (3000 - 904) // 4
    assert num_read < num_rounds * 30 + 10 * 1024


def test_a_line_that_is_read_anew_frees_what_its_branches_held(
    loop: asyncio.AbstractEventLoop,
) -> None:
    draft = Draft(loop, limit=1024)
    line = list(range(1000))
    draft.read(1, line[:950])
    draft.read(2, [*line[:940], 7])
    draft.read(3, [5, *range(800)])
    draft.read(1, line)
    assert draft.cache.evict()
    assert not draft.cache.reach.is_narrow  # that was nobody's context any more
    assert draft.read(3, [5, *range(801)]) == [800]


def test_contexts_that_do_not_fit_together_get_a_share_each(
    loop: asyncio.AbstractEventLoop,
) -> None:
    draft = Draft(loop, limit=4096)
    for owner in (1, 2):
        draft.read(owner, [owner, *range(3000)])
    assert draft.cache.evict()
    assert draft.cache.reach.is_narrow
    sizes = []
    for owner in (1, 2):
        draft.read(owner, [owner, *range(3001)])
        sizes.append(len(draft.books.cells[owner - 1]))
    assert sum(sizes) < 4096
    assert draft.read(1, [1, *range(3002)]) == [3001]  # and is not evicted again
    draft.cache.vacate(1)
    assert draft.cache.reach.is_narrow
    draft.cache.vacate(2)
    assert not draft.cache.reach.is_narrow
