"""The engine: one loaded model, generating answers in passes that verify drafted trees.

Invariant: the loop side only sends messages to the groups' threads; it never waits for a
computation. `Sampler`s are built here, where a broken grammar can still be refused, and belong to
the group afterwards.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Callable
from dataclasses import replace

from specproxy.coordinator.answer import Answer
from specproxy.coordinator.generation import GenerationRequest, SequenceState
from specproxy.coordinator.group import Group
from specproxy.coordinator.inbox import Begin, Stop
from specproxy.coordinator.options import EngineOptions
from specproxy.coordinator.shapes import Shapes
from specproxy.coordinator.stream import Stream
from specproxy.core.prefix import common_prefix
from specproxy.core.verify_tree import VerifyTree
from specproxy.errors import CoordinatorError, RequestError
from specproxy.llama.model import Model
from specproxy.llama.sampler import Sampler
from specproxy.llama.vocabulary import ModelVocabulary

_NO_REUSE = "LLAMA_GRAPH_REUSE_DISABLE"


class LlamaEngine:
    """Generates answers with libllama; implements `generation.Engine`."""

    def __init__(self, model: Model, options: EngineOptions | None = None) -> None:
        """Make the contexts and start their threads. Blocks; from a coroutine use
        `asyncio.to_thread`.

        Args:
            model: belongs to the engine from now on, also when this fails.

        Raises:
            SpecproxyError: a context cannot be had (memory, sizes).
        """
        self._model = model
        self._options = options = options or EngineOptions()
        self._keys = itertools.count()
        self._groups: list[Group] = []
        self._loads: list[int] = []
        if options.groups > 1:
            # ggml's RPC client remembers one graph per device, not per context: with two of them
            # it could ask a worker to compute the other's graph again.
            os.environ[_NO_REUSE] = "1"
        try:
            self._vocabulary = ModelVocabulary(model)
            shapes = Shapes(assume_matter=options.warm == "always")
            for index in range(options.groups):
                group = Group(
                    model,
                    self._vocabulary,
                    replace(
                        options,
                        num_places=-(-options.num_places // options.groups),
                        context_tokens=options.context_tokens // options.groups,
                    ),
                    shapes,
                    name=f"specproxy-engine-{index}",
                )
                self._groups.append(group)
                self._loads.append(0)
                group.started.result()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<LlamaEngine {self.model_name} {self._groups!r}>"

    @property
    def vocabulary(self) -> ModelVocabulary:
        """Lives on when the engine has failed; only `aclose` ends its `tokenize`."""
        return self._vocabulary

    @property
    def model_name(self) -> str:
        return self._model.name

    @property
    def num_context(self) -> int:
        """KV cells that one answer can use: those of a group."""
        return min(group.num_tokens for group in self._groups)

    @property
    def num_context_trained(self) -> int:
        return self._model.num_context_tokens_trained

    @property
    def alive(self) -> bool:
        """Whether all groups work: with one that failed the engine is to be replaced."""
        return all(group.inbox.is_open for group in self._groups)

    @property
    def num_passes(self) -> int:
        """Passes so far."""
        return sum(group.num_passes for group in self._groups)

    @property
    def num_rows(self) -> int:
        """Rows of all passes so far: prompts, answers and drafted nodes."""
        return sum(group.num_rows for group in self._groups)

    @property
    def num_emitted(self) -> int:
        """Tokens of all answers so far."""
        return sum(group.num_emitted for group in self._groups)

    def generate(self, request: GenerationRequest) -> Stream:
        """As in the protocol."""
        if not self.alive:
            raise CoordinatorError("The coordinator's engine is gone.")
        self._check(request)
        max_tokens = self.num_context
        if request.max_tokens is not None:
            max_tokens = min(max_tokens, len(request.prompt) + request.max_tokens)
        sampler = Sampler(request.sampling, self._model, len(self._vocabulary))
        index = self._choose_group(request)
        stream = Stream(next(self._keys), self._groups[index].inbox, self._leaver(index))
        self._loads[index] += 1
        now_s = time.perf_counter()
        answer = Answer(
            key=stream.key,
            request=request,
            sampler=sampler,
            outlet=stream,
            tree=VerifyTree(request.prompt, num_vocabulary=len(self._vocabulary)),
            max_tokens=max_tokens,
            began_s=now_s,
            waiting_since_s=now_s,
        )
        if not self._groups[index].inbox.put(Begin(answer)):
            sampler.close()
            self._loads[index] -= 1
            raise CoordinatorError("The coordinator's engine is gone.")
        return stream

    def states(self) -> list[SequenceState]:
        states = [state for group in self._groups for state in group.states]
        return [replace(state, id=number) for number, state in enumerate(states)]

    def kill(self) -> None:
        """For tests and diagnosis: make the first group fail at its next step."""
        self._groups[0].inbox.put(Stop(crash=True))

    async def aclose(self) -> None:
        """As in the protocol; the memory is free when it returns."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """`aclose` where no loop runs: blocks for a pass at most."""
        for group in self._groups:
            group.inbox.put(Stop())
        for group in self._groups:
            group.thread.join()
        self._model.close()

    def _check(self, request: GenerationRequest) -> None:
        """
        Raises:
            RequestError: it cannot be generated.
        """
        num_prompt = len(request.prompt)
        if num_prompt == 0:
            raise RequestError("The prompt is empty.")
        if num_prompt >= self.num_context:
            raise RequestError(
                f"The prompt of {num_prompt} tokens does not fit into the context of "
                f"{self.num_context} tokens.",
                remedy="Shorten it, or start the coordinator with a longer context.",
            )
        if min(request.prompt) < 0 or max(request.prompt) >= len(self._vocabulary):
            raise RequestError("The prompt holds token ids that the model does not have.")
        if request.max_tokens is not None and request.max_tokens < 1:
            raise RequestError("At least one token must be asked for.")

    def _choose_group(self, request: GenerationRequest) -> int:
        """The group with the fewest answers; of several the one that has read most of it."""
        if len(self._groups) == 1:
            return 0

        def rank(index: int) -> tuple[int, int]:
            cached = self._groups[index].cached
            shared = max((common_prefix(one, request.prompt) for one in cached), default=0)
            return -self._loads[index], shared

        return max(range(len(self._groups)), key=rank)

    def _leaver(self, index: int) -> Callable[[], None]:
        """What to call when an answer of this group is over."""

        def leave() -> None:
            self._loads[index] -= 1

        return leave
