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
from concurrent.futures import Future

from specproxy.core.pace import ReadPace, share_rows
from specproxy.core.prefix import common_prefix
from specproxy.core.rooms import Room, Rooms
from specproxy.core.vocabulary import Vocabulary
from specproxy.draft.choice import Chooser
from specproxy.draft.jobs import Close, Cut, Job, Limit, Message, Start, Stop
from specproxy.errors import DraftUnavailable
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context
from specproxy.llama.model import Model

MAX_CHUNK = 256
_log = logging.getLogger(__name__)


class Worker:
    """Owns the context. All methods but `run` may be called from any thread.

    Attributes:
        num_decoded_tokens: rows evaluated so far.
        num_steps: decode passes so far.
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
        self._rooms = Rooms(num_sequences)
        self._running: list[Job] = []
        self._waiting: deque[Job] = deque()
        self._chooser = Chooser(len(vocabulary), num_alternatives)
        self._num_choices = len(vocabulary)
        self._pace = ReadPace(MAX_CHUNK)
        self._batch = Batch(MAX_CHUNK + num_sequences)
        self._told: set[str] = set()
        self._limit = context_tokens
        self.num_decoded_tokens = 0
        self.num_steps = 0
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
                self.started.set_result(None)
                while self._take_messages():
                    self._admit(context)
                    if self._running:
                        self._step(context)
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
            num_threads=self._num_threads,
        )
        self._limit = min(context.num_tokens, self._model.num_context_tokens_trained)
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

    def _take_messages(self) -> bool:
        """Handle all messages, waiting for one when there is no work; False to leave."""
        idle = not self._running and not self._waiting
        while idle or not self._inbox.empty():
            match self._inbox.get():
                case Start(job):
                    self._waiting.append(job)
                case Cut(owner):
                    self._end_jobs_of(owner)
                case Close(owner):
                    self._end_jobs_of(owner)
                    self._rooms.vacate(owner)
                case Limit(num_tokens):
                    self._num_choices = min(num_tokens, len(self._vocabulary))
                case Stop(crash):
                    if crash:
                        raise RuntimeError("killed on request")
                    return False
            idle = False
        return True

    def _end_jobs_of(self, owner: int) -> None:
        for job in [*self._running, *self._waiting]:
            if job.owner == owner:
                self._finish(job)

    def _finish(self, job: Job) -> None:
        """End `job` with what it has, wherever it is."""
        if job in self._running:
            self._running.remove(job)
        if job in self._waiting:
            self._waiting.remove(job)
        if job.room is not None:
            self._rooms.release(job.room)
            job.room = None
        job.finish()

    def _admit(self, context: Context) -> None:
        """Give waiting jobs their rooms, in order, as long as there are any."""
        while self._waiting:
            job = self._waiting[0]
            if not self._can_read(job.tokens):
                self._finish(job)
                continue
            room = self._rooms.acquire(job.owner, job.tokens)
            if room is None:
                return
            self._waiting.popleft()
            self._running.append(job)
            job.room = room
            # The last token is evaluated even if it is cached: its logits are wanted. A job that
            # only reads leaves it to the draft that follows.
            num_wanted = len(job.tokens) - 1
            self._share_prefix(context, room, job.tokens)
            num_cached = min(common_prefix(room.tokens, job.tokens), num_wanted)
            if num_cached < len(room.tokens) and (job.num_tokens or num_cached < num_wanted):
                num_cached = self._roll_back(context, room, num_cached)
            job.pending = job.tokens[num_cached : None if job.num_tokens else num_wanted]
            if not job.pending:
                self._finish(job)

    def _share_prefix(self, context: Context, room: Room, tokens: list[int]) -> None:
        """Take over the cells of another room that knows more of `tokens`; nothing is read."""
        donor, num_shared = self._rooms.best_donor(room, tokens)
        if donor is not None and num_shared > common_prefix(room.tokens, tokens):
            self._roll_back(context, room, 0)
            context.seq_cp(donor.sequence, room.sequence, 0, num_shared)
            room.tokens[:] = donor.tokens[:num_shared]

    def _can_read(self, tokens: list[int]) -> bool:
        if len(tokens) > self._limit:
            self._tell_once(f"a context exceeds the draft model's {self._limit} tokens")
            return False
        if min(tokens) < 0 or max(tokens) >= len(self._vocabulary):
            self._tell_once("a context holds token ids that the draft model does not have")
            return False
        return True

    def _tell_once(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.warning("%s; such contexts are not drafted for", what)

    def _roll_back(self, context: Context, room: Room, num_kept: int) -> int:
        """Cut a room's cache down to `num_kept` tokens; returns how many are left: maybe none."""
        if not context.seq_rm(room.sequence, num_kept):
            context.seq_rm(room.sequence)
            num_kept = 0
        del room.tokens[num_kept:]
        return num_kept

    def _step(self, context: Context) -> None:
        """One decode pass for all running jobs."""
        num_pending = [len(job.pending) for job in self._running]
        shares = share_rows(num_pending, self._pace.chunk(shared=1 in num_pending))
        self._batch.clear()
        rows: list[tuple[Job, Room, int, int]] = []
        for job, share in zip(self._running, shares, strict=True):
            room = job.room
            assert room is not None, "a running job has a room"
            wants_logits = share == len(job.pending) and job.num_tokens > 0
            row = self._batch.extend(
                job.pending[:share],
                len(room.tokens),
                room.sequence,
                wants_last_logits=wants_logits,
            )
            rows.append((job, room, share, row))
        began_s = time.perf_counter()
        if not context.decode(self._batch):
            self._make_room(context)
            return
        self._pace.observe(len(self._batch), time.perf_counter() - began_s)
        self.num_steps += 1
        self.num_decoded_tokens += len(self._batch)
        for job, room, share, row in rows:
            room.tokens += job.pending[:share]
            del job.pending[:share]
            if not job.pending:
                self._advance(context, job, room, row)

    def _advance(self, context: Context, job: Job, room: Room, row: int) -> None:
        """All of the job's tokens are read: draft the next one, or finish."""
        if job.num_tokens > 0:
            choice = self._chooser.choose(context.logits(row)[: self._num_choices])
            job.emit(choice)
            is_last = len(job.drafted) == job.num_tokens or len(room.tokens) == self._limit
            if not is_last and not self._vocabulary.is_end(choice.token):
                job.pending.append(choice.token)
                return
        self._finish(job)

    def _make_room(self, context: Context) -> None:
        """KV cells ran out: empty an idle room; if there is none, end the largest job."""
        room = self._rooms.evictable()
        if room is None:
            largest = max(self._running, key=lambda job: len(job.tokens) + len(job.drafted))
            self._finish(largest)
            return
        self._roll_back(context, room, 0)
