"""What a simulated draft says: the real model's words, or a scripted language's.

Invariant: the same words after the same context, however often and however late they are asked.
"""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from specproxy.bench.recorded import Context, Recording
from specproxy.core.drafted import DraftToken
from specproxy.core.vocabulary import Vocabulary
from specproxy.draft.engine import LlamaDrafter
from specproxy.testing.drafter import Behaviour, perfect
from specproxy.testing.language import Language

NUM_AT_ONCE = 8
"""Tokens that a model is asked for where one is missing: the next ones will be wanted, too."""


class Words(Protocol):
    """A draft without its time."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    def after(self, tokens: Sequence[int]) -> DraftToken | None:
        """What it says next; None: nothing."""
        ...


class ScriptedWords:
    """Implements `Words`."""

    def __init__(self, language: Language, behaviour: Behaviour = perfect) -> None:
        self._language = language
        self._behaviour = behaviour

    @property
    def vocabulary(self) -> Vocabulary:
        return self._language.vocabulary

    def after(self, tokens: Sequence[int]) -> DraftToken | None:
        drafted = self._behaviour(self._language, tokens, 1)
        return drafted[0] if drafted else None


class ModelWords:
    """Implements `Words` with a model in this process. Blocks whoever asks, for as long as it
    takes: in virtual time that is none.

    Raises:
        ConfigError: the model file is missing or broken.
    """

    def __init__(self, model: Path, *, num_threads: int = 1) -> None:
        self._drafter = LlamaDrafter(model, num_sequences=1, num_threads=num_threads)
        self._recording = Recording()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._sequence = self._drafter.open()

    def __repr__(self) -> str:
        return f"<ModelWords {self._recording!r} of {self._drafter!r}>"

    @property
    def vocabulary(self) -> Vocabulary:
        return self._drafter.vocabulary

    def after(self, tokens: Sequence[int]) -> DraftToken | None:
        context = Context(tokens)
        found = self._recording.after(context)
        if found is None:
            self._recording.learn(tokens, self.say(tokens, NUM_AT_ONCE))
            found = self._recording.after(context)
        return found

    def say(self, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
        """Its greedy continuation."""
        drafting = self._sequence.draft(tokens, num_tokens)
        return asyncio.run_coroutine_threadsafe(drafting, self._loop).result()

    def close(self) -> None:
        """Frees the model."""
        self._sequence.close()
        asyncio.run_coroutine_threadsafe(self._drafter.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
