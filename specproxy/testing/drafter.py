"""A scripted drafter: `draft.protocol.Drafter` over the target's language, right or wrong.

Invariant: what it drafts is a pure function of the context, its behaviour and its generator;
only `delay_s` and `fail_after_calls` touch the outside.
"""

import asyncio
import random
from collections.abc import Callable, Sequence

from specproxy.core.drafted import DraftToken
from specproxy.core.vocabulary import Vocabulary
from specproxy.draft.protocol import OnToken
from specproxy.errors import DraftUnavailable
from specproxy.testing.language import Language
from specproxy.testing.vocabulary import FIRST_BYTE

Behaviour = Callable[[Language, Sequence[int], int], list[DraftToken]]
NUM_ALTERNATIVES = 3


def perfect(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
    """The greedy continuation, with the next best as alternatives."""
    context = list(tokens)
    drafted: list[DraftToken] = []
    while len(drafted) < num_tokens:
        best, *others = language.distribution(context)
        drafted.append(DraftToken(best[0], best[1], tuple(others[:NUM_ALTERNATIVES])))
        context.append(best[0])
        if language.vocabulary.is_end(best[0]):
            break
    return drafted


def adversarial(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
    """Never the target's greedy token, and sure of it."""
    context = list(tokens)
    for _ in range(num_tokens):
        context.append(_wrong(language, language.best(context)))
    return [DraftToken(token, 0.999) for token in context[len(tokens) :]]


def empty(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
    """Nothing at all."""
    return []


def repeats_last(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
    """A degenerated model: the last token, again and again."""
    return [DraftToken(tokens[-1], 0.9)] * num_tokens


def noisy(rate: float, rng: random.Random) -> Behaviour:
    """Wrong at each position with probability `rate`, right (or rather: going on) otherwise."""

    def draft(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
        context = list(tokens)
        for _ in range(num_tokens):
            best = language.best(context)
            context.append(_wrong(language, best) if rng.random() < rate else best)
            if language.vocabulary.is_end(context[-1]):
                break
        return [DraftToken(token, 1 - rate) for token in context[len(tokens) :]]

    return draft


def right_then_wrong(num_right: int) -> Behaviour:
    """The first `num_right` tokens of each block are right, the rest is not."""

    def draft(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
        right = perfect(language, tokens, min(num_right, num_tokens))
        context = [*tokens, *(one.token for one in right)]
        return right + adversarial(language, context, num_tokens - len(right))

    return draft


def babbling(rng: random.Random) -> Behaviour:
    """Random ids of the vocabulary, control tokens and padding among them."""

    def draft(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
        size = len(language.vocabulary)
        return [DraftToken(rng.randrange(size), rng.random()) for _ in range(num_tokens)]

    return draft


def miscounting(difference: int) -> Behaviour:
    """As many tokens more (or fewer) than asked for: breaks the protocol."""

    def draft(language: Language, tokens: Sequence[int], num_tokens: int) -> list[DraftToken]:
        return perfect(language, tokens, max(0, num_tokens + difference)) if num_tokens else []

    return draft


class ScriptedDrafter:
    """Implements `Drafter`.

    Args:
        behaviour: what it drafts.
        delay_s: time per drafted token; 0 only yields once per call.
        fail_after_calls: the call after so many raises DraftUnavailable, as do all later.
        can_branch: what it says of itself; it can.

    Attributes:
        calls: (tokens, num_tokens) of every `draft` call.
        num_open: sequences opened and not closed.
        limits: the limit of each sequence opened, None for none; not enforced.
    """

    def __init__(
        self,
        language: Language | None = None,
        behaviour: Behaviour = perfect,
        *,
        delay_s: float = 0.0,
        fail_after_calls: int | None = None,
        can_branch: bool = True,
    ) -> None:
        self.language = language or Language()
        self.behaviour = behaviour
        self.delay_s = delay_s
        self.fail_after_calls = fail_after_calls
        self.can_branch = can_branch
        self.calls: list[tuple[list[int], int]] = []
        self.num_open = 0
        self.limits: list[int | None] = []
        self._dead = False

    @property
    def vocabulary(self) -> Vocabulary:
        return self.language.vocabulary

    @property
    def alive(self) -> bool:
        return not self._dead

    def kill(self) -> None:
        """The model is gone: every call, running ones too, raises DraftUnavailable."""
        self._dead = True

    def open(self, num_tokens: int | None = None) -> "ScriptedSequence":
        self.check()
        self.limits.append(num_tokens)
        self.num_open += 1
        return ScriptedSequence(self)

    def check(self) -> None:
        """Raises DraftUnavailable if the drafter is gone."""
        if self._dead:
            raise DraftUnavailable("The scripted drafter is dead.")

    def count_call(self, tokens: Sequence[int], num_tokens: int) -> None:
        """Remember a call; it may be the one that kills."""
        self.check()
        if self.fail_after_calls is not None and len(self.calls) >= self.fail_after_calls:
            self.kill()
            self.check()
        self.calls.append((list(tokens), num_tokens))

    async def aclose(self) -> None:
        self._dead = True


class ScriptedSequence:
    """Implements `DraftSequence`.

    Attributes:
        first_token: set as soon as a slow call has its first token.
    """

    def __init__(self, drafter: ScriptedDrafter) -> None:
        self.first_token = asyncio.Event()
        self._drafter = drafter
        self._cut: asyncio.Event | None = None
        self._closed = False

    async def draft(
        self, tokens: Sequence[int], num_tokens: int, *, on_token: OnToken | None = None
    ) -> list[DraftToken]:
        drafter = self._drafter
        if not tokens:
            raise ValueError("a draft needs at least one token of context")
        if self._cut is not None:
            raise RuntimeError("a sequence is used by one task at a time")
        drafter.count_call(tokens, num_tokens)
        drafted = drafter.behaviour(drafter.language, tokens, num_tokens) if num_tokens else []
        self._cut = asyncio.Event()
        self.first_token.clear()
        try:
            await asyncio.sleep(0)
            for done, token in enumerate(drafted):
                if drafter.delay_s and await self._is_cut(self._cut, drafter.delay_s):
                    drafted = drafted[:done]
                    break
                drafter.check()
                self.first_token.set()
                if on_token is not None:
                    on_token(token)
                if self._cut.is_set():
                    drafted = drafted[: done + 1]
                    break
        finally:
            self._cut = None
        drafter.check()
        return drafted

    def cut(self) -> None:
        if self._cut is not None:
            self._cut.set()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._drafter.num_open -= 1
            self.cut()

    @staticmethod
    async def _is_cut(event: asyncio.Event, delay_s: float) -> bool:
        try:
            async with asyncio.timeout(delay_s):  # (3.11's wait_for can swallow a cancellation)
                await event.wait()
        except TimeoutError:
            return False
        return True


def _wrong(language: Language, right: int) -> int:
    """Another ordinary word than `right`."""
    first = FIRST_BYTE + 256
    return first + 1 if right == first else first
