"""One pass from its shares to what it gave each answer.

    compose -> fill the batch -> decode -> walk each tree -> keep the accepted path

Invariant: after `run` the cache holds for each answer exactly what was confirmed, but its last
token; no branch holds anything else, whatever the pass's outcome was.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specproxy.coordinator.answer import Answer
from specproxy.coordinator.generation import Finish, Step
from specproxy.coordinator.passes import Limits, PassNode, Share, compose
from specproxy.coordinator.places import Places
from specproxy.coordinator.shapes import Shapes
from specproxy.coordinator.walk import Logits, Walk, walk
from specproxy.core.cost import PassCost
from specproxy.errors import SpecproxyError
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass gave one answer.

    Attributes:
        step: None: its prompt is not read yet.
        error: it cannot go on.
    """

    answer: Answer
    step: Step | None = None
    error: SpecproxyError | None = None


class PassRunner:
    """Runs the passes of one context.

    Attributes:
        trees: whether drafted nodes are verified at all.
        num_passes, num_rows, num_emitted: so far.
    """

    def __init__(
        self,
        context: Context,
        places: Places,
        cost: PassCost,
        shapes: Shapes,
        *,
        is_end: Callable[[int], bool],
    ) -> None:
        self.trees = True
        self.num_passes = 0
        self.num_rows = 0
        self.num_emitted = 0
        self._context = context
        self._places = places
        self._cost = cost
        self._shapes = shapes
        self._is_end = is_end
        num_branches = len(places.branches)
        self._limits = Limits(context.num_batch_tokens, context.max_outputs, num_branches)
        self._batch = Batch(context.num_batch_tokens, max_sequences_per_row=1 + num_branches)
        self._backlog = False  # rows are under way that nobody has waited for

    def __repr__(self) -> str:
        return f"<PassRunner {self.num_passes} passes, {self.num_rows} rows>"

    def run(self, answers: Sequence[Answer]) -> list[Outcome] | None:
        """One pass for all `answers`; None: the KV cells do not suffice, nothing has changed.

        Raises:
            SpecproxyError: the computation failed; the cache's content is unknown.
        """
        began_s = time.perf_counter()
        shares = self._decode(answers)
        if shares is None:
            return None
        num_rows, num_outputs = len(self._batch), self._batch.num_outputs
        if num_outputs:
            self._context.logits(_output_row(shares))  # waits for the computation
        ended_s = time.perf_counter()
        duration_s = ended_s - began_s
        self._shapes.observe(
            num_rows, num_outputs, duration_s, None if self._backlog else self._cost
        )
        self._backlog = num_outputs == 0
        self.num_passes += 1
        self.num_rows += num_rows
        outcomes = [
            self._conclude(share, began_s=began_s, duration_s=duration_s) for share in shares
        ]
        self._places.branches.settle()
        for share in shares:
            share.answer.passed(ended_s)
        return outcomes

    def _decode(self, answers: Sequence[Answer]) -> list[Share] | None:
        """Decode a pass that fits: evict what nobody uses, then do without trees."""
        trees = self.trees
        while True:
            shares = compose(answers, self._cost, self._shapes, self._limits, trees=trees)
            self._fill(shares)
            while not self._context.decode(self._batch):
                if not self._places.evict():
                    break
            else:
                return shares
            self._places.branches.settle()
            if not trees or not any(share.nodes for share in shares):
                return None
            trees = False

    def _fill(self, shares: Sequence[Share]) -> None:
        self._batch.clear()
        for share in shares:
            room = share.answer.room
            start = len(room.tokens)
            end = start + share.num_pending
            share.sequences = (
                room.sequence,
                *self._places.branches.take(room, share.num_branches),
            )
            for position in range(start, end):
                share.root_row = self._batch.add(
                    share.answer.tree.tokens[position],
                    position,
                    share.sequences,
                    wants_logits=share.completes and position == end - 1,
                )
            for node in share.nodes:
                sequences = [share.sequences[path] for path in node.paths]
                node.row = self._batch.add(node.token, node.position, sequences, wants_logits=True)

    def _conclude(self, share: Share, *, began_s: float, duration_s: float) -> Outcome:
        """Walk a share's tree, keep what was accepted."""
        answer = share.answer
        completes = share.completes  # before its tokens are booked
        self._places.read(answer, share.num_pending)
        if not completes:
            return Outcome(answer)
        num_read = len(answer.room.tokens)
        try:
            walked = self._walk(share)
        except SpecproxyError as error:
            self._places.keep(answer, answer.room.sequence, num_read, num_read)
            return Outcome(answer, error=error)
        tokens = [emitted.token for emitted in walked.emitted]
        answer.tree.advance(tokens)
        answer.num_emitted += len(tokens)
        self.num_emitted += len(tokens)
        if share.nodes:
            own = [node for node in walked.path if 0 in node.paths]
            last = walked.path[-1].paths[0] if walked.path else 0
            self._places.keep(
                answer,
                share.sequences[last],
                num_read + len(own),
                num_read + len(walked.path),
            )
        finish: Finish | None = None
        if walked.ended:
            finish = "stop"
        elif answer.budget <= 0:
            finish = "length"
        step = Step(
            tokens=walked.emitted,
            num_verified=len(share.nodes),
            num_accepted=len(walked.path),
            num_rows=len(self._batch),
            duration_s=duration_s,
            waited_s=max(0.0, began_s - answer.waiting_since_s),
            finish=finish,
        )
        return Outcome(answer, step)

    def _walk(self, share: Share) -> Walk[PassNode]:
        def logits_of(node: PassNode) -> Logits:
            return self._context.logits(node.row)

        return walk(
            self._context.logits(share.root_row),
            share.children,
            logits_of,
            share.answer.sampler,
            is_end=self._is_end,
            budget=share.answer.budget,
            num_top_logprobs=share.answer.request.num_top_logprobs,
        )


def _output_row(shares: Sequence[Share]) -> int:
    """A row of the pass whose logits were wanted."""
    return next(share.root_row for share in shares if share.completes)
