"""The draft model in this process: `Drafter` on libllama, off the event loop.

Invariant: the loop side only sends messages to the worker thread and awaits futures; it never
waits for a computation.
"""

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

from specproxy.core.drafted import DraftToken
from specproxy.draft.jobs import Close, Cut, Job, Start, Stop
from specproxy.draft.protocol import OnToken
from specproxy.draft.worker import Worker
from specproxy.errors import DraftUnavailable
from specproxy.llama.model import Model
from specproxy.llama.vocabulary import ModelVocabulary

DEFAULT_CONTEXT_TOKENS = 16384


class LlamaDrafter:
    """A draft model in memory; implements `draft.protocol.Drafter`."""

    def __init__(
        self,
        model_path: Path,
        *,
        num_sequences: int = 16,
        context_tokens: int = DEFAULT_CONTEXT_TOKENS,
        num_threads: int = 1,
        num_alternatives: int = 3,
        gpu_layers: int = 0,
    ) -> None:
        """Load the model and start the worker. Blocks; from a coroutine use `asyncio.to_thread`.

        Args:
            num_sequences: sequences with a KV cache at a time; more may be open.
            context_tokens: KV cells shared by all sequences.
            num_alternatives: next best tokens given with each drafted one.
            gpu_layers: layers on the GPU; negative for all.

        Raises:
            ConfigError: the model file is missing or broken.
            SetupError: libllama is not there.
            SpecproxyError: the context cannot be had.
        """
        self._keys = itertools.count()
        self._model = Model(model_path, num_gpu_layers=gpu_layers)
        try:
            self._vocabulary = ModelVocabulary(self._model)
            self._worker = Worker(
                self._model,
                self._vocabulary,
                num_sequences=num_sequences,
                context_tokens=context_tokens,
                num_threads=num_threads,
                num_alternatives=num_alternatives,
            )
            self._worker.started.result()
        except BaseException:
            self._model.close()
            raise

    def __repr__(self) -> str:
        return f"<LlamaDrafter {self._model.name} {self._worker!r}>"

    @property
    def vocabulary(self) -> ModelVocabulary:
        """Lives on when the worker has failed; only `aclose` ends its `tokenize`."""
        return self._vocabulary

    @property
    def alive(self) -> bool:
        return self._worker.alive

    @property
    def can_branch(self) -> bool:
        return self._worker.can_branch

    @property
    def num_decoded_tokens(self) -> int:
        """Tokens evaluated so far, prompts included."""
        return self._worker.num_decoded_tokens

    @property
    def num_steps(self) -> int:
        """Decode passes so far; tokens per pass show how well sequences share them."""
        return self._worker.num_steps

    def open(self, num_tokens: int | None = None) -> "LlamaSequence":
        """As in the protocol.

        Raises:
            ValueError: less than one token would be left.
        """
        if not self._worker.alive:
            raise DraftUnavailable("The draft model is gone.")
        num_choices = len(self._vocabulary) if num_tokens is None else num_tokens
        if num_choices < 1:
            raise ValueError(f"a vocabulary of {num_choices} tokens")
        num_choices = min(num_choices, len(self._vocabulary))
        return LlamaSequence(self._worker, next(self._keys), num_choices)

    def kill(self) -> None:
        """For tests and diagnosis: make the worker fail at its next step."""
        self._worker.send(Stop(crash=True))

    async def aclose(self) -> None:
        """Running calls get DraftUnavailable; the memory is freed when the worker has left."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """`aclose` where no loop runs: blocks for a decode step at most."""
        self._worker.send(Stop())
        self._worker.thread.join()
        self._model.close()


class LlamaSequence:
    """One conversation in the drafter; implements `draft.protocol.DraftSequence`."""

    def __init__(self, worker: Worker, key: int, num_choices: int) -> None:
        self._worker = worker
        self._key = key
        self._num_choices = num_choices
        self._closed = False
        self._drafting = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "drafting" if self._drafting else "idle"
        return f"<LlamaSequence {self._key} {state}>"

    async def draft(
        self, tokens: Sequence[int], num_tokens: int, *, on_token: OnToken | None = None
    ) -> list[DraftToken]:
        """As in the protocol; an empty list for a context with ids that the draft lacks.

        Args:
            on_token: called on the loop with each token as soon as it is drafted, before the call
                returns; never after it returned or was cancelled.

        Raises:
            RuntimeError: the sequence is closed, or in a call already.
            ValueError: no tokens.
        """
        if self._closed or self._drafting:
            raise RuntimeError(f"draft on {self!r}")
        if not tokens:
            raise ValueError("a draft needs at least one token of context")
        loop = asyncio.get_running_loop()
        job = Job(
            self._key,
            list(tokens),
            num_tokens,
            self._num_choices,
            loop,
            loop.create_future(),
            on_token,
        )
        if not self._worker.send(Start(job)):
            raise DraftUnavailable("The draft model is gone.")
        self._drafting = True
        try:
            return await job.future
        except asyncio.CancelledError:
            self._worker.send(Cut(self._key))
            raise
        finally:
            self._drafting = False

    def cut(self) -> None:
        if self._drafting:
            self._worker.send(Cut(self._key))

    def close(self) -> None:
        """A running call returns what it has."""
        if not self._closed:
            self._closed = True
            self._worker.send(Close(self._key))
