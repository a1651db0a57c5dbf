"""One answer of the scripted engine: its tree, and the steps that wait to be fetched.

Invariant: every iteration ends: with the step that finishes it, an error, or its closing.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

from specproxy.coordinator.generation import GenerationRequest, Step
from specproxy.core.drafts import GrownNode
from specproxy.core.verify_tree import VerifyTree
from specproxy.errors import CoordinatorError
from specproxy.testing.language import SamplingParams

LONGEST_WAIT_S = 1.0
"""How long a drafted answer waits for the nodes that its client announced with `go_at`."""


class ScriptedGeneration:
    """An answer being generated; its engine moves it."""

    def __init__(
        self,
        request: GenerationRequest,
        *,
        seed: int,
        num_vocabulary: int,
        changed: Callable[[], None],
        left: "Callable[[ScriptedGeneration], None]",
    ) -> None:
        """
        Args:
            changed: called when the tree has grown.
            left: called when the answer is closed.
        """
        self.num_cached = 0
        self.prompt_s = 0.0
        self.request = request
        self.tree = VerifyTree(request.prompt, num_vocabulary=num_vocabulary)
        self.go_at = 0
        self.num_emitted = 0
        self.ready_since_s = asyncio.get_running_loop().time()
        self.sampling = SamplingParams(
            temperature=request.sampling.temperature,
            seed=seed,
            top_k=request.sampling.top_k,
            top_p=request.sampling.top_p,
            min_p=request.sampling.min_p,
            ignore_eos=request.sampling.ignore_eos,
        )
        self._changed = changed
        self._left = left
        self._steps: asyncio.Queue[Step | CoordinatorError | None] = asyncio.Queue()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        step = await self._steps.get()
        if isinstance(step, CoordinatorError):
            raise step
        if step is None:
            raise StopAsyncIteration
        return step

    def grow(self, nodes: Sequence[GrownNode], go_at: int) -> None:
        self.tree.grow(nodes)
        self.go_at = go_at
        self._changed()

    def close(self) -> None:
        self._left(self)
        self._steps.put_nowait(None)

    def put(self, step: Step | CoordinatorError) -> None:
        self._steps.put_nowait(step)
        if isinstance(step, CoordinatorError) or step.finish is not None:
            self._steps.put_nowait(None)

    def waits_until_s(self) -> float:
        """When the next pass may be at the latest; in the past: now."""
        if not self.request.drafted or self.tree.longest >= self.go_at:
            return 0.0
        return self.ready_since_s + LONGEST_WAIT_S
