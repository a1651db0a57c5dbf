"""A group's thread: continuous batching of answers and their draft trees over one context.

    messages -> answers to places -> wait for drafts -> one pass for all -> emit

Invariant: this thread alone touches the context, the places and the answers. Whatever goes wrong
in it ends in CoordinatorError for all answers, one log line, and a group that takes no more.
"""

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import closing

from specproxy.coordinator.answer import Answer
from specproxy.coordinator.departure import departure_s
from specproxy.coordinator.generation import SequenceState, Step
from specproxy.coordinator.inbox import Begin, End, Grow, Inbox, Message, Stop
from specproxy.coordinator.options import EngineOptions
from specproxy.coordinator.places import Places
from specproxy.coordinator.runner import Outcome, PassRunner
from specproxy.coordinator.shapes import Shapes
from specproxy.coordinator.warm import Warmer
from specproxy.core.cost import PassCost
from specproxy.core.vocabulary import Vocabulary
from specproxy.errors import CoordinatorError
from specproxy.llama.context import Context
from specproxy.llama.model import Model

_FULL = "The KV cache is full: all of it is in use by running answers."
_FULL_REMEDY = "Ask for fewer answers at a time, or give the coordinator a longer context."
_IDLE_S = 0.5
_log = logging.getLogger(__name__)


class Group:
    """Owns a context. Other threads put messages into `inbox` and read the attributes.

    Attributes:
        num_tokens: KV cells; known once started.
        num_passes, num_rows, num_emitted: so far.
        states: the places, as they were after the last pass.
        cached: what they hold of ended answers, to choose among groups.
    """

    def __init__(
        self,
        model: Model,
        vocabulary: Vocabulary,
        options: EngineOptions,
        shapes: Shapes,
        *,
        name: str,
    ) -> None:
        """Start the thread; `started` is resolved once its context is there, or cannot be had.

        Args:
            options: of this group alone.
        """
        self.inbox = Inbox()
        self.started: Future[None] = Future()
        self.num_tokens = 0
        self.num_passes = self.num_rows = self.num_emitted = 0
        self.states: tuple[SequenceState, ...] = ()
        self.cached: tuple[tuple[int, ...], ...] = ()
        self.cost = PassCost()
        self._model = model
        self._vocabulary = vocabulary
        self._options = options
        self._shapes = shapes
        self._running: list[Answer] = []
        self._waiting: deque[Answer] = deque()
        self._has_news = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def __repr__(self) -> str:
        state = "alive" if self.inbox.is_open else "dead"
        return f"<Group {state} {len(self._running)} running, {self.cost!r}>"

    def _run(self) -> None:
        """Body of the thread."""
        reason = "The coordinator's engine was closed."
        try:
            with closing(self._open_context()) as context:
                self._serve(context)
        except Exception as error:
            reason = f"The coordinator's engine failed: {error}"
            if not self.started.done():
                self.started.set_exception(error)
            else:
                _log.error("%s", reason, exc_info=_log.isEnabledFor(logging.DEBUG))
        finally:
            self._die(reason)

    def _open_context(self) -> Context:
        options = self._options
        return Context(
            self._model,
            num_tokens=options.context_tokens,
            max_sequences=options.num_places + options.num_branches + 1,
            num_batch_tokens=options.max_rows,
            max_outputs=max(options.max_outputs, options.num_places),
            num_threads=options.num_threads,
            cache_type_k=options.cache_type_k,
            cache_type_v=options.cache_type_v,
        )

    def _serve(self, context: Context) -> None:
        options = self._options
        places = Places(context, options.num_places, options.num_branches)
        scratch = options.num_places + options.num_branches
        warmer = Warmer(context, scratch, self.cost, self._shapes)
        runner = PassRunner(
            context, places, self.cost, self._shapes, is_end=self._vocabulary.is_end
        )
        runner.trees = warmer.can_roll_back()
        if not runner.trees:
            _log.warning("%s cannot roll back: drafts are not verified", self._model.name)
        self.num_tokens = context.num_tokens
        self._publish(places, runner)
        self.started.set_result(None)
        warms = options.warm != "never"
        is_idle = warms
        wait_s: float | None = 0.0
        while self._take_messages(places, wait_s):
            self._admit(places)
            if self._has_news:
                self._publish(places, runner)
            if self._running:
                is_idle = False
                now_s = time.perf_counter()
                wait_s = max(0.0, departure_s(self._running, now_s, self.cost) - now_s)
                if wait_s == 0.0:
                    self._pass(places, runner)
            elif is_idle:
                warms = warms and warmer.step()
                wait_s = 0.0 if warms else None
            else:  # the next request often follows at once, and should not meet a slow pass
                is_idle = True
                wait_s = _IDLE_S if warms else None

    def _take_messages(self, places: Places, wait_s: float | None) -> bool:
        """Handle all messages, waiting for the first one; False to leave."""
        message = self.inbox.take(wait_s)
        while message is not None:
            if not self._handle(message, places):
                return False
            message = self.inbox.take(0.0)
        return True

    def _handle(self, message: Message, places: Places) -> bool:
        match message:
            case Begin(answer):
                self._waiting.append(answer)
            case Grow(key, nodes, go_at):
                for answer in (*self._running, *self._waiting):
                    if answer.key == key:
                        answer.grow(nodes, go_at)
            case End(key):
                for answer in (*self._running, *self._waiting):
                    if answer.key == key:
                        self._drop(answer, places)
            case Stop(crash):
                if crash:
                    raise RuntimeError("killed on request")
                return False
        return True

    def _admit(self, places: Places) -> None:
        """Give waiting answers their places, in order, as long as there are any."""
        while self._waiting and places.enter(self._waiting[0]):
            answer = self._waiting.popleft()
            answer.sampler.prime(answer.request.prompt)
            self._running.append(answer)

    def _pass(self, places: Places, runner: PassRunner) -> None:
        """One pass for all running answers, and what comes of it."""
        outcomes = runner.run(self._running)
        if outcomes is None:
            self._overflow(places)
            return
        for outcome in outcomes:
            if outcome.error is not None or (outcome.step and outcome.step.finish):
                self._drop(outcome.answer, places)
        self._publish(places, runner)
        for outcome in outcomes:
            _tell(outcome)

    def _overflow(self, places: Places) -> None:
        """KV cells ran out, and nothing is left to evict: the newest answer ends."""
        newest = max(self._running, key=lambda answer: answer.key)
        self._drop(newest, places)
        if newest.num_emitted == 0:
            newest.outlet.fail(CoordinatorError(_FULL, remedy=_FULL_REMEDY))
        else:
            newest.outlet.emit(Step((), finish="length"))

    def _drop(self, answer: Answer, places: Places) -> None:
        """`answer` is over, wherever it is."""
        places.leave(answer)
        if answer in self._running:
            self._running.remove(answer)
        if answer in self._waiting:
            self._waiting.remove(answer)
        answer.sampler.close()
        self._has_news = True
        self.cached = tuple(tuple(room.tokens) for room in places)

    def _publish(self, places: Places, runner: PassRunner) -> None:
        self._has_news = False
        self.num_passes, self.num_rows = runner.num_passes, runner.num_rows
        self.num_emitted = runner.num_emitted
        emitted = {answer.room.sequence: answer.num_emitted for answer in self._running}
        self.states = tuple(
            SequenceState(room.sequence, room.busy, len(room.tokens), emitted.get(room.sequence, 0))
            for room in places
        )

    def _die(self, reason: str) -> None:
        left = [one.answer for one in self.inbox.close() if isinstance(one, Begin)]
        for answer in (*self._running, *self._waiting, *left):
            answer.sampler.close()
            answer.outlet.fail(CoordinatorError(reason))
        self._running.clear()
        self._waiting.clear()


def _tell(outcome: Outcome) -> None:
    """Send what a pass gave an answer to whoever waits for it."""
    answer, step = outcome.answer, outcome.step
    if outcome.error is not None:
        answer.outlet.fail(CoordinatorError(f"The answer failed: {outcome.error}"))
    elif step is not None:
        if answer.num_emitted == len(step.tokens):
            answer.outlet.begin(answer.num_cached, answer.waiting_since_s - answer.began_s)
        answer.outlet.emit(step)
