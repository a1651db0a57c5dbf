"""Passes that serve nobody: they make numbers of rows known before somebody waits for them.

Invariant: their rows live in a sequence id of their own, which is empty afterwards.
"""

import time

from specproxy.coordinator.shapes import Shapes
from specproxy.core.cost import PassCost
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context

_NUM_RUN_TWICE = 3
_ALL_OUTPUTS = 48
"""Up to that many rows all want logits, as in a pass of drafted nodes; beyond, as in one of a
prompt, the last does."""


class Warmer:
    """Warms one context."""

    def __init__(self, context: Context, sequence: int, cost: PassCost, shapes: Shapes) -> None:
        """
        Args:
            sequence: an id that nothing else uses.
        """
        self._context = context
        self._sequence = sequence
        self._cost = cost
        self._shapes = shapes
        self._batch = Batch(context.num_batch_tokens)
        self._again: int | None = None
        self._first_s = 0.0
        self._num_run_twice = 0

    def __repr__(self) -> str:
        return f"<Warmer {self._shapes!r}>"

    def can_roll_back(self) -> bool:
        """Whether the cache can forget the end of a sequence: recurrent models' cannot, so that
        nothing can be drafted for them."""
        self._decode(2, num_outputs=0)
        self._shapes.observe(2, 0, 0.0, None)
        can = self._context.seq_rm(self._sequence, 1)
        self._context.seq_rm(self._sequence)
        return can

    def step(self) -> bool:
        """One pass of a number of rows that is worth it; False: there is none, or no room."""
        num_rows = self._again or self._shapes.next_to_warm(self._context.num_batch_tokens)
        if num_rows is None:
            return False
        began_s = time.perf_counter()
        num_outputs = num_rows if num_rows <= min(_ALL_OUTPUTS, self._context.max_outputs) else 1
        if not self._decode(num_rows, num_outputs):
            return False
        duration_s = time.perf_counter() - began_s
        self._context.seq_rm(self._sequence)
        self._shapes.observe(num_rows, num_outputs, duration_s, self._cost)
        self._compare(num_rows, duration_s)
        return True

    def _compare(self, num_rows: int, duration_s: float) -> None:
        """The first few are run twice, which tells what a first pass costs."""
        if self._again is not None:
            self._again = None
            self._num_run_twice += 1
            self._shapes.measure(self._first_s - duration_s, self._cost)
        elif self._num_run_twice < _NUM_RUN_TWICE:
            self._again = num_rows
            self._first_s = duration_s

    def _decode(self, num_rows: int, num_outputs: int) -> bool:
        """Decode that many rows, and wait for the last ones' logits; False: no room."""
        self._batch.clear()
        for row in range(num_rows):
            wants_logits = row >= num_rows - num_outputs
            self._batch.add(0, row, (self._sequence,), wants_logits=wants_logits)
        if not self._context.decode(self._batch):
            return False
        if num_outputs:
            self._context.logits(num_rows - 1)
        return True
