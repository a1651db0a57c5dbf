"""Sequence ids for the paths of draft trees that leave an answer's main path.

A branch shares the cells of its answer's place, so giving it the prefix moves no data; but libllama
books each shared cell, which takes time for a long prefix. So a branch stays with its place from
pass to pass and only learns what is new, until another place needs it.

Invariant: between passes a branch has the first `num_shared` positions of its place, nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specproxy.core.rooms import Room
from specproxy.llama.context import Context


@dataclass(eq=False, slots=True)
class Branch:
    """A sequence id; `place` is None while no answer has it."""

    sequence: int
    place: Room | None = None
    num_shared: int = 0
    in_use: bool = False


class Branches:
    """The branches of one context."""

    def __init__(self, context: Context, sequences: Sequence[int]) -> None:
        self._context = context
        self._branches = [Branch(sequence) for sequence in sequences]

    def __len__(self) -> int:
        return len(self._branches)

    def __repr__(self) -> str:
        num_placed = sum(branch.place is not None for branch in self._branches)
        return f"<Branches {num_placed} of {len(self)} placed>"

    def take(self, place: Room, num_branches: int) -> list[int]:
        """Sequence ids that have all of `place`'s cells, for the pass that begins.

        Raises:
            ValueError: there are not as many as that.
        """
        free = [branch for branch in self._branches if not branch.in_use]
        free.sort(key=lambda branch: (branch.place is not place, branch.place is not None))
        if num_branches > len(free):
            raise ValueError(f"{num_branches} branches of {self!r}")
        for branch in free[:num_branches]:
            if branch.place is not place:
                self._detach(branch)
                branch.place = place
            num_cells = len(place.tokens)
            self._context.seq_cp(place.sequence, branch.sequence, branch.num_shared, num_cells)
            branch.num_shared = num_cells
            branch.in_use = True
        return [branch.sequence for branch in free[:num_branches]]

    def settle(self) -> None:
        """The pass is over, and what it accepted is in the places: forget all paths."""
        for branch in self._branches:
            if branch.in_use:
                self._context.seq_rm(branch.sequence, branch.num_shared)
                branch.in_use = False

    def release(self, place: Room) -> None:
        """The answer in `place` is gone."""
        for branch in self._branches:
            if branch.place is place:
                self._detach(branch)

    def _detach(self, branch: Branch) -> None:
        if branch.place is not None:
            self._context.seq_rm(branch.sequence)
        branch.place = None
        branch.num_shared = 0
