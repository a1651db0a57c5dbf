"""The scripted target's passes: queue, slots, prefix caches, n-gram speculation. No I/O.

Mirrors `update_slots` and `server_queue` of llama-server. A pass has two halves, so that what
arrives while it "runs" is seen by the next one only: `begin_pass` takes tasks, looks up drafts
and fills the batch; `finish_pass` samples, verifies and emits.
Invariant: the text a task emits is that of `language.generate`, whatever the pool drafts.
"""

from collections import deque
from dataclasses import dataclass, field

from specproxy.core.prefix import common_prefix
from specproxy.testing.language import Language, sample
from specproxy.testing.ngram_pool import NgramPool
from specproxy.testing.slot import Begin, Failed, Slot, State, Stats, Task, TokenProbs

IDLE_MS = 0.001


@dataclass
class Pass:
    """What one pass did.

    Attributes:
        num_tokens: tokens in the batch, prompts and drafts included.
        drafted, accepted, emitted, prompted: tokens by slot id.
    """

    num_tokens: int = 0
    drafted: dict[int, int] = field(default_factory=dict)
    accepted: dict[int, int] = field(default_factory=dict)
    emitted: dict[int, int] = field(default_factory=dict)
    prompted: dict[int, int] = field(default_factory=dict)


class Engine:
    """Slots that share one n-gram pool.

    Args:
        pool: None: the server was started without `--spec-type ngram-mod`.
        shifts_context: `--context-shift`.
        shows_special: `--special`.
        similarity: `-sps`; 0 picks the idle slot that was used least recently.
    """

    def __init__(
        self,
        language: Language,
        *,
        num_slots: int = 4,
        n_ctx: int = 4096,
        n_batch: int = 2048,
        pool: NgramPool | None = None,
        similarity: float = 0.1,
        shifts_context: bool = False,
        shows_special: bool = False,
    ) -> None:
        self.language = language
        self.n_batch = n_batch
        self.pool = pool
        self.similarity = similarity
        self.shows_special = shows_special
        self.slots = [Slot(i, n_ctx, shifts_context) for i in range(num_slots)]
        self.passes: list[Pass] = []
        self.totals = Stats()
        self.now_ms = 0.0
        self._queue: deque[Task] = deque()
        self._deferred: deque[Task] = deque()
        self._cancelled: list[Task] = []
        self._running: Pass | None = None
        self._num_released = 0

    def __repr__(self) -> str:
        states = ",".join(slot.state.value for slot in self.slots)
        waiting = f"{len(self._queue)} queued, {len(self._deferred)} deferred"
        return f"Engine([{states}], {waiting}, {len(self.passes)} passes)"

    @property
    def has_work(self) -> bool:
        return bool(self._queue or self._cancelled) or any(slot.busy for slot in self.slots)

    @property
    def num_deferred(self) -> int:
        return len(self._deferred)

    def submit(self, task: Task) -> None:
        self._queue.append(task)

    def cancel(self, task: Task) -> None:
        """Forget `task`; a slot that works on it is freed before the next pass."""
        self._queue = deque(t for t in self._queue if t is not task)
        self._deferred = deque(t for t in self._deferred if t is not task)
        self._cancelled.append(task)

    def abandon(self) -> None:
        """The process is dead: nothing runs and nothing waits any more."""
        for waiting in (self._queue, self._deferred, self._cancelled):
            waiting.clear()
        for slot in self.slots:
            if slot.busy:
                self._release(slot)

    def begin_pass(self) -> Pass | None:
        """Fill a batch; None if there is nothing to evaluate."""
        self._take_tasks()
        running = Pass()
        for slot in self.slots:
            if slot.state is State.GENERATING:
                self._add_generating(slot, running)
        for slot in self.slots:
            if slot.state is State.STARTED:
                self._start(slot)
            if slot.state is State.PROMPT:
                self._add_prompt(slot, running)
        if running.num_tokens == 0:
            return None
        self._running = running
        self.passes.append(running)
        return running

    def finish_pass(self, duration_ms: float = IDLE_MS) -> None:
        """Sample and verify what `begin_pass` put in the batch."""
        running, self._running = self._running, None
        assert running is not None, "finish_pass without begin_pass"
        self.now_ms += duration_ms
        for slot in self.slots:
            if slot.busy:
                self._add_time(slot, duration_ms)
        for slot in self.slots:
            if slot.state is State.DONE_PROMPT:
                slot.state = State.GENERATING
                if self.pool is not None:
                    self.pool.begin(slot.id, slot.tokens)
                self._sample_one(slot, running)
            elif slot.state is State.GENERATING and not slot.draft:
                self._sample_one(slot, running)
        for slot in self.slots:
            if slot.state is State.GENERATING and slot.draft:
                self._verify(slot, running)

    def run(self, max_passes: int = 10_000) -> None:
        """Passes until nothing is left to do; for tests without a clock."""
        for _ in range(max_passes):
            if not self.has_work:
                return
            if self.begin_pass() is not None:
                self.finish_pass()
        raise RuntimeError(f"still busy after {max_passes} passes: {self!r}")

    def _take_tasks(self) -> None:
        for task in self._cancelled:
            for slot in self.slots:
                if slot.task is task:
                    self._release(slot)
        self._cancelled.clear()
        while self._queue:
            task = self._queue.popleft()
            chosen = self._slot_for(task)
            if chosen is None or chosen.busy:
                self._deferred.append(task)
            else:
                chosen.launch(task)

    def _slot_for(self, task: Task) -> Slot | None:
        if task.is_child:
            return next((slot for slot in self.slots if not slot.busy), None)
        if task.params.id_slot != -1:
            return self.slots[task.params.id_slot % len(self.slots)]
        best: Slot | None = None
        best_similarity = self.similarity
        for slot in self.slots:
            if self.similarity and not slot.busy and slot.tokens and task.prompt:
                similarity = common_prefix(slot.tokens, task.prompt) / len(task.prompt)
                if similarity > best_similarity:
                    best, best_similarity = slot, similarity
        if best is not None:
            return best
        for slot in self.slots:
            if not slot.busy and (best is None or slot.last_used <= best.last_used):
                best = slot
        return best

    def _release(self, slot: Slot) -> None:
        self._num_released += 1
        slot.release(self._num_released)
        waiting = list(self._deferred)
        same = next((task for task in waiting if task.params.id_slot == slot.id), None)
        task = same or (waiting[0] if waiting else None)
        if task is not None:
            self._deferred.remove(task)
            self._queue.appendleft(task)

    def _add_generating(self, slot: Slot, running: Pass) -> None:
        if slot.shifts and slot.is_full:
            slot.shift()
        room = slot.num_draft_max
        if self.pool is not None and room > 0:
            slot.draft = self.pool.draft(slot.id, slot.tokens, slot.sampled)[:room]
            if slot.draft:
                running.drafted[slot.id] = len(slot.draft)
                self._count(slot, num_drafted=len(slot.draft))
        slot.tokens += [slot.sampled, *slot.draft]
        running.num_tokens += 1 + len(slot.draft)

    def _start(self, slot: Slot) -> None:
        task = slot.task
        assert task is not None
        if not task.prompt:
            task.emit(slot.final())
            self._release(slot)
            return
        if len(task.prompt) >= slot.n_ctx:
            task.emit(
                Failed(
                    f"request ({len(task.prompt)} tokens) exceeds the available context size "
                    f"({slot.n_ctx} tokens), try increasing it",
                    "exceed_context_size_error",
                    400,
                    len(task.prompt),
                    slot.n_ctx,
                )
            )
            self._release(slot)
            return
        num_cached = common_prefix(slot.tokens, task.prompt) if task.params.cache_prompt else 0
        num_cached = min(num_cached, len(task.prompt) - 1)
        slot.stats = Stats(num_cached=num_cached)
        del slot.tokens[num_cached:]
        slot.state = State.PROMPT
        if task.params.stream:
            task.emit(Begin())

    def _add_prompt(self, slot: Slot, running: Pass) -> None:
        assert slot.task is not None
        room = max(0, self.n_batch - running.num_tokens)
        fresh = slot.task.prompt[len(slot.tokens) :][:room]
        slot.tokens += fresh
        if fresh:
            running.num_tokens += len(fresh)
            running.prompted[slot.id] = len(fresh)
            self._count(slot, num_prompt=len(fresh))
            if len(slot.tokens) == len(slot.task.prompt):
                slot.state = State.DONE_PROMPT

    def _sample_one(self, slot: Slot, running: Pass) -> None:
        token, probs = self._draw(slot, slot.tokens)
        self._emit(slot, token, probs, running)

    def _verify(self, slot: Slot, running: Pass) -> None:
        draft, slot.draft = slot.draft, []
        base = slot.tokens[: len(slot.tokens) - len(draft)]
        ids: list[int] = []
        for drafted in [*draft, None]:
            token, _ = self._draw(slot, [*base, *ids])
            ids.append(token)
            if token != drafted:
                break
        num_accepted = len(ids) - 1
        if self.pool is not None:
            self.pool.accept(slot.id, num_accepted)
        running.accepted[slot.id] = num_accepted
        self._count(slot, num_accepted=num_accepted)
        slot.tokens = [*base, *ids[:-1]]
        slot.sampled = ids[-1]
        for token in ids:
            if not self._emit(slot, token, TokenProbs(token, 1.0, ()), running):
                return

    def _draw(self, slot: Slot, context: list[int]) -> tuple[int, TokenProbs]:
        task = slot.task
        assert task is not None
        vocabulary = self.language.vocabulary
        end = vocabulary.end_of_turn
        if task.params.only_text is not None:
            tokens = [*vocabulary.tokenize(task.params.only_text), end]
            token = tokens[min(slot.num_draws, len(tokens) - 1)]
            slot.num_draws += 1
            return token, TokenProbs(token, 1.0, ())
        distribution = self.language.distribution(context)
        token = sample(distribution, task.sampling, slot.num_draws, end=end)
        slot.num_draws += 1
        top = distribution[: task.params.num_probs]
        return token, TokenProbs(token, dict(distribution).get(token, 0.0), top)

    def _emit(self, slot: Slot, token: int, probs: TokenProbs, running: Pass) -> bool:
        task = slot.task
        assert task is not None
        vocabulary = self.language.vocabulary
        self._count(slot, num_predicted=1)
        running.emitted[slot.id] = running.emitted.get(slot.id, 0) + 1
        piece = vocabulary.rendered(token) if self.shows_special else vocabulary.piece(token)
        shown = probs if task.params.num_probs else None
        if slot.take(token, piece, is_end=vocabulary.is_end(token), probs=shown):
            return True
        task.emit(slot.final())
        self._release(slot)
        return False

    def _count(self, slot: Slot, **counts: int) -> None:
        slot.stats.add(counts)
        self.totals.add(counts)

    def _add_time(self, slot: Slot, duration_ms: float) -> None:
        if slot.state is State.GENERATING:
            slot.stats.predicted_ms += duration_ms
        else:
            slot.stats.prompt_ms += duration_ms
