"""Which numbers of rows this process has run, and what a new one costs.

The RPC client asks each worker how large the outputs of some operators are, and keeps the answers
by output shape for the life of the process. So the first pass of a number of rows pays about four
more round trips per worker than the later ones; how long the sequences are does not matter. The
last layer computes only the rows whose logits are wanted, so a new number of those costs
something, too, but one worker only.

Invariant: shared by all groups of an engine, whose threads each call one method at a time.
"""

import threading

from specproxy.core.cost import PassCost

WARM_ORDER = (1, 8, 4, 2, 6, 12, 16, 3, 5, 7, 9, 10, 11, 24, 32, 13, 14, 15, 20, 28, 64)
WARM_ROWS = 48
_OUTPUTS_SHARE = 0.25
_PAYS_SHARE = 0.4
_MIN_MEASURED = 2
_NUM_OBSERVED_ENOUGH = 8
_SMOOTHING = 0.3


class Shapes:
    """Known numbers of rows.

    Attributes:
        extra_s: what the first pass of a number of rows takes longer than a later one.
        matter: whether it is worth any trouble; decided by the first few measured.
    """

    def __init__(self, *, assume_matter: bool = False) -> None:
        """
        Args:
            assume_matter: take the trouble whatever is measured.
        """
        self.extra_s = 0.0
        self.matter = True
        self._assume_matter = assume_matter
        self._num_measured = 0
        self._least_s = float("inf")
        self._rows: set[int] = set()
        self._outputs: set[int] = set()
        self._claimed: set[int] = set()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Shapes {len(self._rows)} known, a new one costs {self.extra_s * 1e3:.0f} ms>"

    def new_s(self, num_rows: int, num_outputs: int = 0) -> float:
        """Expected extra time of a pass of these sizes; 0: it is known."""
        if not self.matter:
            return 0.0
        is_known = num_outputs == 0 or num_outputs in self._rows or num_outputs in self._outputs
        shares = (num_rows not in self._rows) + (0.0 if is_known else _OUTPUTS_SHARE)
        return shares * self.extra_s

    def known_up_to(self, num_rows: int) -> list[int]:
        """Known numbers of rows, up to `num_rows`, largest first."""
        with self._lock:
            return sorted((known for known in self._rows if known <= num_rows), reverse=True)

    def observe(
        self, num_rows: int, num_outputs: int, duration_s: float, cost: PassCost | None
    ) -> None:
        """A pass ran; tells `cost` of it unless it was the first of its shape.

        Args:
            cost: None: the duration means nothing.
        """
        with self._lock:
            is_new = num_rows not in self._rows
            is_new_anyhow = is_new or num_outputs not in self._rows | self._outputs
            self._rows.add(num_rows)
            self._outputs.add(num_outputs)
        if cost is None or num_outputs == 0:  # then nobody waits for the last worker
            return
        if not is_new_anyhow or not self.matter:
            cost.observe(num_rows, duration_s)
        elif is_new and cost.num_observed >= _NUM_OBSERVED_ENOUGH:
            self.measure(duration_s - cost.pass_s(num_rows), cost)

    def measure(self, extra_s: float, cost: PassCost) -> None:
        """The first pass of a number of rows took so much longer than a later one takes."""
        extra_s = max(extra_s, 0.0)
        self._num_measured += 1
        smoothing = 1.0 if self._num_measured == 1 else _SMOOTHING
        self.extra_s += smoothing * (extra_s - self.extra_s)
        self._least_s = min(self._least_s, extra_s)
        if self._num_measured >= _MIN_MEASURED and not self._assume_matter:
            self.matter = self._least_s > _PAYS_SHARE * cost.pass_s(1)

    def next_to_warm(self, max_rows: int) -> int | None:
        """A number of rows to run while nobody waits; it is the caller's, who must run it."""
        with self._lock:
            if not self.matter:
                return None
            order = (*WARM_ORDER, *range(1, WARM_ROWS + 1))
            todo = (n for n in order if n not in self._rows | self._claimed and n <= max_rows)
            num_rows = next(todo, None)
            if num_rows is not None:
                self._claimed.add(num_rows)
            return num_rows
