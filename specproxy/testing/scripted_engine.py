"""A scripted engine: `coordinator.generation.Engine` over the toy language, without libllama.

It reads prompts, verifies grown trees and emits tokens in passes of settable length.
Invariant: what an answer emits is `language.generate`, whatever is drafted for it.
"""

import asyncio
import math
import random
from collections import deque
from dataclasses import dataclass, field, replace

from specproxy.coordinator.generation import (
    Emitted,
    Finish,
    GenerationRequest,
    SequenceState,
    Step,
)
from specproxy.core.prefix import common_prefix
from specproxy.core.tasks import spawn, stop
from specproxy.core.verify_tree import VerifyNode
from specproxy.errors import CoordinatorError, RequestError
from specproxy.testing.language import Language, sample
from specproxy.testing.scripted_generation import ScriptedGeneration
from specproxy.testing.vocabulary import ToyVocabulary


@dataclass
class Place:
    """Where one answer's tokens are cached, also after it has ended."""

    id: int
    tokens: list[int] = field(default_factory=list)
    generation: ScriptedGeneration | None = None


class ScriptedEngine:
    """Several answers at a time, in passes.

    Args:
        pass_ms, row_ms: simulated time of a pass, and of each row in it.
        tokens_per_step: tokens of a pass that are emitted without being drafted, as if the
            engine had drafts of its own that are always right.
        random_seed: of requests without a seed; None: truly random.

    Attributes:
        die_after: passes until the engine dies; None: it lives.
        verified: (nodes verified, nodes accepted) of every pass of an answer.
    """

    def __init__(
        self,
        language: Language | None = None,
        *,
        num_places: int = 4,
        num_context: int = 4096,
        pass_ms: float = 0.0,
        row_ms: float = 0.0,
        tokens_per_step: int = 1,
        max_verified: int = 64,
        model: str = "toy-model",
        random_seed: int | None = None,
    ) -> None:
        self.language = language or Language()
        self.pass_ms = pass_ms
        self.row_ms = row_ms
        self.tokens_per_step = tokens_per_step
        self.die_after: int | None = None
        self.verified: list[tuple[int, int]] = []
        self.num_passes = 0
        self.num_rows = 0
        self._max_verified = max_verified
        self._model = model
        self._num_context = num_context
        self._entropy = random.Random(random_seed)
        self._places = [Place(i) for i in range(num_places)]
        self._line: deque[ScriptedGeneration] = deque()
        self._wake = asyncio.Event()
        self._alive = True
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<ScriptedEngine busy={self.num_busy} waiting={len(self._line)}>"

    @property
    def vocabulary(self) -> ToyVocabulary:
        return self.language.vocabulary

    @property
    def model_name(self) -> str:
        return self._model

    @property
    def num_context(self) -> int:
        return self._num_context

    @property
    def num_context_trained(self) -> int:
        return 8192

    @property
    def alive(self) -> bool:
        return self._alive

    @property
    def num_busy(self) -> int:
        return sum(place.generation is not None for place in self._places)

    def generate(self, request: GenerationRequest) -> ScriptedGeneration:
        if not self._alive:
            raise CoordinatorError("The scripted engine is dead.")
        if not 0 < len(request.prompt) < self._num_context:
            raise RequestError("The prompt does not fit.")
        seed = request.sampling.seed
        generation = ScriptedGeneration(
            request,
            seed=self._entropy.getrandbits(32) if seed is None else seed,
            num_vocabulary=len(self.vocabulary),
            changed=self.wake,
            left=self.leave,
        )
        self._line.append(generation)
        if self._task is None:
            self._task = spawn(self._run(), name="scripted engine")
        self.wake()
        return generation

    def states(self) -> list[SequenceState]:
        return [
            SequenceState(
                id=place.id,
                busy=place.generation is not None,
                num_tokens=len(place.tokens),
                num_emitted=place.generation.num_emitted if place.generation else 0,
            )
            for place in self._places
        ]

    def wake(self) -> None:
        """Something has changed."""
        self._wake.set()

    def leave(self, generation: ScriptedGeneration) -> None:
        """Its place is free; the cache stays."""
        if generation in self._line:
            self._line.remove(generation)
        for place in self._places:
            if place.generation is generation:
                place.generation = None
        self.wake()

    def die(self) -> None:
        """As when a worker is lost: running answers fail, no new ones begin."""
        self._alive = False
        running = [place.generation for place in self._places if place.generation is not None]
        for generation in [*running, *self._line]:
            generation.put(CoordinatorError("The engine died.", remedy="It is scripted."))
            self.leave(generation)

    async def aclose(self) -> None:
        self.die()
        if self._task is not None:
            await stop(self._task)

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._alive:
            self._take_places()
            running = [place for place in self._places if place.generation is not None]
            due_s = {place.id: _generation(place).waits_until_s() for place in running}
            ready = [place for place in running if due_s[place.id] <= clock()]
            if ready:
                await self._pass(ready)
                continue
            timeout_s = min(due_s.values()) - clock() if due_s else None
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()

    def _take_places(self) -> None:
        while self._line and self.num_busy < len(self._places):
            generation = self._line.popleft()
            prompt = list(generation.request.prompt)
            free = [place for place in self._places if place.generation is None]
            place = max(free, key=lambda one: common_prefix(one.tokens, prompt))
            if generation.request.cache_prompt:
                num_common = common_prefix(place.tokens, prompt)
                generation.num_cached = min(num_common, len(prompt) - 1)
            place.tokens = prompt
            place.generation = generation

    async def _pass(self, ready: list[Place]) -> None:
        began_s = asyncio.get_running_loop().time()
        plans = []
        num_rows = 0
        for place in ready:
            generation = _generation(place)
            nodes = {node for _, node in generation.tree.best(self._max_verified)}
            plans.append((place, generation, nodes))
            num_read = 1
            if generation.num_emitted == 0:
                num_read = len(generation.request.prompt) - generation.num_cached
            num_rows += num_read + len(nodes)
        duration_s = (self.pass_ms + self.row_ms * num_rows) / 1e3
        await asyncio.sleep(duration_s)
        self.num_passes += 1
        self.num_rows += num_rows
        if self.die_after is not None and self.num_passes > self.die_after:
            self.die()
            return
        for place, generation, nodes in plans:
            if place.generation is not generation:
                continue  # it has left meanwhile
            if generation.num_emitted == 0:
                generation.prompt_s = duration_s
            step = replace(
                self._verify(generation, nodes),
                num_rows=num_rows,
                duration_s=duration_s,
                waited_s=max(0.0, began_s - generation.ready_since_s),
            )
            generation.ready_since_s = asyncio.get_running_loop().time()
            place.tokens = generation.tree.tokens[:-1]
            if step.finish is not None:
                self.leave(generation)
            generation.put(step)

    def _verify(self, generation: ScriptedGeneration, nodes: set[VerifyNode]) -> Step:
        """Walk the tree by what the model says."""
        emitted: list[Emitted] = []
        num_accepted = 0
        finish: Finish | None = None
        tree = generation.tree
        while finish is None:
            one = self._draw(generation)
            emitted.append(one)
            child = tree.root.child(one.token)
            is_accepted = child in nodes
            tree.advance([one.token])
            generation.num_emitted += 1
            finish = self._finish(generation, one.token)
            num_accepted += is_accepted
            if not is_accepted and len(emitted) - num_accepted >= self.tokens_per_step:
                break
        self.verified.append((len(nodes), num_accepted))
        return Step(
            tuple(emitted), num_verified=len(nodes), num_accepted=num_accepted, finish=finish
        )

    def _draw(self, generation: ScriptedGeneration) -> Emitted:
        distribution = self.language.distribution(generation.tree.tokens)
        end = self.vocabulary.end_of_turn
        token = sample(distribution, generation.sampling, generation.num_emitted, end=end)
        num_top = generation.request.num_top_logprobs
        if num_top is None:
            return Emitted(token)
        top = tuple((one, math.log(weight)) for one, weight in distribution[:num_top])
        weight = dict(distribution).get(token, 0.0)
        return Emitted(token, math.log(weight) if weight else -math.inf, top)

    def _finish(self, generation: ScriptedGeneration, token: int) -> Finish | None:
        if self.vocabulary.is_end(token):
            return "stop"
        is_full = len(generation.tree.tokens) >= self._num_context
        is_enough = generation.num_emitted == generation.request.max_tokens
        return "length" if is_full or is_enough else None


def _generation(place: Place) -> ScriptedGeneration:
    assert place.generation is not None
    return place.generation
