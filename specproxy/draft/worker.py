"""The draft's worker thread: continuous batching over one llama context.

    messages -> admit waiting jobs to rooms -> one batch with every job's next tokens -> choose

Invariant: this thread alone touches the context, the rooms and the running jobs. Whatever goes
wrong in it ends in DraftUnavailable for all jobs, one log line, and a worker that takes no more.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from specproxy.core.drafted import DraftToken
from specproxy.core.pace import ReadPace, share_rows
from specproxy.core.rooms import Room
from specproxy.core.vocabulary import Vocabulary
from specproxy.draft.cache import DraftCache
from specproxy.draft.choice import Chooser
from specproxy.draft.jobs import Close, Cut, Job, Message, Start, Stop
from specproxy.draft.lookup import MAX_GUESSES
from specproxy.draft.reach import Reach
from specproxy.errors import DraftUnavailable
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context
from specproxy.llama.model import Model

MAX_CHUNK = 256
MAX_GUESSING_JOBS = 2
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Part:
    """A job's rows in a step: `share` pending tokens, the last in `row`, then guesses."""

    job: Job
    room: Room
    share: int
    row: int
    guesses: Sequence[int]


class Worker:
    """Owns the context. All methods but `run` may be called from any thread.

    Attributes:
        can_branch: the cache can share or forget a part of a sequence.
        num_decoded_tokens: rows evaluated so far.
        num_steps: decode passes so far.
        num_guessed, num_guesses_right: rows that guesses took, and those that saved one.
    """

    def __init__(
        self,
        model: Model,
        vocabulary: Vocabulary,
        *,
        num_sequences: int,
        context_tokens: int,
        num_threads: int,
        num_alternatives: int,
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._context_tokens = context_tokens
        self._num_sequences = num_sequences
        self._num_threads = num_threads
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._gate = threading.Lock()  # between "is it alive" and "put": nothing slips in after
        self._alive = True
        self._running: list[Job] = []
        self._waiting: deque[Job] = deque()
        self._chooser = Chooser(len(vocabulary), num_alternatives)
        self._pace = ReadPace(MAX_CHUNK)
        self._max_outputs = num_sequences + MAX_GUESSING_JOBS * MAX_GUESSES
        self._batch = Batch(MAX_CHUNK + self._max_outputs)
        self._told: set[str] = set()
        self._limit = context_tokens
        self.can_branch = True
        self.num_decoded_tokens = 0
        self.num_steps = 0
        self.num_guessed = self.num_guesses_right = 0
        self.started: Future[None] = Future()
        self.thread = threading.Thread(target=self.run, name="specproxy-draft", daemon=True)
        self.thread.start()

    def __repr__(self) -> str:
        state = "alive" if self._alive else "dead"
        return f"<Worker {state} {len(self._running)} jobs, {len(self._waiting)} waiting>"

    @property
    def alive(self) -> bool:
        return self._alive

    def send(self, message: Message) -> bool:
        """Put a message into the worker's queue; False when the worker is gone."""
        with self._gate:
            if self._alive:
                self._inbox.put(message)
            return self._alive

    def run(self) -> None:
        """Body of the thread."""
        reason = "The draft model was closed."
        try:
            context = self._open_context()
            try:
                cache = DraftCache(context, self._num_sequences, Reach(self._limit))
                self.can_branch = cache.can_cut
                self.started.set_result(None)
                while self._take_messages(cache):
                    self._admit(cache)
                    if self._running:
                        self._step(context, cache)
                    self.can_branch = cache.can_cut  # a cut may have shown otherwise
            finally:
                context.close()
        except Exception as error:
            if not self.started.done():
                self.started.set_exception(error)
                reason = "The draft model did not start."
            else:
                reason = f"The draft model failed: {error}"
                _log.error(
                    "the draft model failed, answers go on without speculation: %s",
                    error,
                    exc_info=_log.isEnabledFor(logging.DEBUG),
                )
        finally:
            self._die(DraftUnavailable(reason))

    def _open_context(self) -> Context:
        context = Context(
            self._model,
            num_tokens=self._context_tokens,
            max_sequences=self._num_sequences,
            num_batch_tokens=self._batch.capacity,
            max_outputs=self._max_outputs,
            num_threads=self._num_threads,
        )
        self._limit = min(context.num_tokens, self._model.num_context_tokens_trained)
        if not context.can_cut:
            _log.warning("%s is recurrent: each miss has it read all anew", self._model.name)
        return context

    def _die(self, error: DraftUnavailable) -> None:
        with self._gate:
            self._alive = False
        jobs = [*self._running, *self._waiting]
        while not self._inbox.empty():
            message = self._inbox.get()
            if isinstance(message, Start):
                jobs.append(message.job)
        for job in jobs:
            job.fail(DraftUnavailable(str(error)))
        self._running.clear()
        self._waiting.clear()

    def _take_messages(self, cache: DraftCache) -> bool:
        """Handle all messages, waiting for one when there is no work; False to leave."""
        idle = not self._running and not self._waiting
        while idle or not self._inbox.empty():
            match self._inbox.get():
                case Start(job):
                    self._waiting.append(job)
                case Cut(owner):
                    self._end_jobs_of(owner, cache)
                case Close(owner):
                    self._end_jobs_of(owner, cache)
                    cache.vacate(owner)
                case Stop(crash):
                    if crash:
                        raise RuntimeError("killed on request")
                    return False
            idle = False
        return True

    def _end_jobs_of(self, owner: int, cache: DraftCache) -> None:
        for job in [*self._running, *self._waiting]:
            if job.owner == owner:
                self._finish(job, cache)

    def _finish(self, job: Job, cache: DraftCache) -> None:
        """End `job` with what it has, wherever it is."""
        if job in self._running:
            self._running.remove(job)
        if job in self._waiting:
            self._waiting.remove(job)
        cache.leave(job)
        job.finish()

    def _admit(self, cache: DraftCache) -> None:
        """Give waiting jobs their rooms, in order, as far as there are any."""
        for job in list(self._waiting):
            if not self._can_read(job.tokens):
                self._finish(job, cache)
            elif cache.enter(job):
                self._waiting.remove(job)
                self._running.append(job)
                if not job.pending:
                    self._finish(job, cache)
            elif not cache.may_wait(job):
                self._tell_once("draft.num_sequences: too few for all answers; some have no drafts")
                self._finish(job, cache)

    def _can_read(self, tokens: list[int]) -> bool:
        if min(tokens) >= 0 and max(tokens) < len(self._vocabulary):
            return True
        self._tell_once("what holds token ids that the draft model lacks is not drafted for")
        return False

    def _tell_once(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.warning("%s", what)

    def _step(self, context: Context, cache: DraftCache) -> None:
        """One decode pass for all running jobs."""
        num_pending = [len(job.pending) for job in self._running]
        shares = share_rows(num_pending, self._pace.chunk(shared=1 in num_pending))
        self._batch.clear()
        parts = [
            self._add(cache, job, share) for job, share in zip(self._running, shares, strict=True)
        ]
        began_s = time.perf_counter()
        if not context.decode(self._batch):
            self._make_room(cache)
            return
        self._pace.observe(len(self._batch), time.perf_counter() - began_s)
        self.num_steps += 1
        self.num_decoded_tokens += len(self._batch)
        for part in parts:
            part.room.tokens += part.job.pending[: part.share]
            del part.job.pending[: part.share]
            if not part.job.pending:
                self._advance(context, cache, part)

    def _add(self, cache: DraftCache, job: Job, share: int) -> "_Part":
        """Put a job's rows into the batch."""
        room = job.room
        assert room is not None, "a running job has a room"
        wants_logits = share == len(job.pending) and job.num_tokens > 0
        start = len(room.tokens)
        row = self._batch.extend(
            job.pending[:share], start, room.sequence, wants_last_logits=wants_logits
        )
        guesses = self._guess(cache, job, room) if wants_logits and share == 1 else []
        for position, token in enumerate(guesses, start + 1):
            self._batch.add(token, position, (room.sequence,), wants_logits=True)
        return _Part(job, room, share, row, guesses)

    def _guess(self, cache: DraftCache, job: Job, room: Room) -> list[int]:
        """What the draft may say next, to be drafted along with this row.

        With many rows in a step one more costs nearly as much as it can save.
        """
        num_left = min(job.num_tokens - len(job.drafted) - 1, self._limit - len(room.tokens) - 2)
        if not cache.can_cut or len(self._running) > MAX_GUESSING_JOBS or num_left < 1:
            return []
        guesses = cache.guess(room, job.pending, num_left)
        return [token for token in guesses if token < job.num_choices]

    def _advance(self, context: Context, cache: DraftCache, part: "_Part") -> None:
        """All of the job's tokens are read: draft the next ones, or finish."""
        job, room = part.job, part.room
        if job.num_tokens == 0:
            self._finish(job, cache)
            return
        num_accepted, choice = 0, self._choose(context, part.row, job)
        job.emit(choice)
        for guess in part.guesses:
            if choice.token != guess or self._vocabulary.is_end(guess):
                break
            room.tokens.append(guess)
            num_accepted += 1
            choice = self._choose(context, part.row + num_accepted, job)
            job.emit(choice)
        self.num_guessed += len(part.guesses)
        self.num_guesses_right += num_accepted
        if num_accepted < len(part.guesses):
            cache.cut(room, len(room.tokens))
        is_last = len(job.drafted) == job.num_tokens or len(room.tokens) == self._limit
        if is_last or self._vocabulary.is_end(choice.token):
            self._finish(job, cache)
        elif room.tokens:
            job.pending.append(choice.token)
        else:  # the cache cannot forget a part of it: read it anew
            job.pending = [*job.tokens, *(token.token for token in job.drafted)]

    def _choose(self, context: Context, row: int, job: Job) -> DraftToken:
        return self._chooser.choose(context.logits(row)[: job.num_choices])

    def _make_room(self, cache: DraftCache) -> None:
        """KV cells ran out: empty an idle room; if there is none, end the largest job."""
        if not cache.evict():
            largest = max(self._running, key=lambda job: len(job.tokens) + len(job.drafted))
            self._finish(largest, cache)
        elif cache.reach.is_narrow:
            self._tell_once("draft.context_tokens: too few for all answers; only ends are read")
