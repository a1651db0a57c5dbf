"""One choice of an answer: the engine's passes become pieces of text, then the end.

Invariant: the results are those of token-by-token decoding, however many tokens a pass emits: what
comes after a stop string in the same pass does not exist, neither in the text nor in any count.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Literal

from specproxy.coordinator.channel import Drafting
from specproxy.coordinator.generation import Emitted, Generation, Step
from specproxy.coordinator.http.metrics import Counts
from specproxy.coordinator.http.parameters import Parameters
from specproxy.coordinator.http.text import AnswerText
from specproxy.coordinator.http.timings import Timings
from specproxy.errors import CoordinatorError

StopType = Literal["none", "eos", "word", "limit"]


@dataclass(frozen=True, slots=True)
class TokenProbs:
    """An emitted token for `logprobs`; `text` is what was shown with it."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    text: bytes


@dataclass(frozen=True, slots=True)
class Partial:
    """A token that completed its characters; its text may still be held back.

    Attributes:
        timings: where asked for, and once a stop string was found.
    """

    text: bytes
    token: int
    num_predicted: int
    timings: Timings | None
    probs: TokenProbs | None


@dataclass(frozen=True, slots=True)
class Final:
    """The end: all of the text, whether it was streamed or not."""

    text: bytes
    tokens: tuple[int, ...]
    stop_type: StopType
    stopping_word: str
    has_new_line: bool
    truncated: bool
    timings: Timings
    probs: tuple[TokenProbs, ...]

    @property
    def finish_reason(self) -> str:
        return "stop" if self.stop_type in ("word", "eos") else "length"


Result = Partial | Final


class Answer:
    """One choice on its way.

    Args:
        generation: None for an empty prompt, which has an empty answer.
        piece: a token's bytes in this answer.
    """

    def __init__(
        self,
        index: int,
        prompt: tuple[int, ...],
        parameters: Parameters,
        generation: Generation | None,
        *,
        piece: Callable[[int], bytes],
        is_end: Callable[[int], bool],
        drafting: Drafting,
        counts: Counts,
    ) -> None:
        self.index = index
        self.prompt = prompt
        self.parameters = parameters
        self._generation = generation
        self._piece = piece
        self._is_end = is_end
        self._drafting = drafting
        self._counts = counts
        self._text = AnswerText(parameters.stops)
        self._tokens: list[int] = []
        self._probs: list[TokenProbs] = []
        self._timings = Timings()
        self._truncated: bool | None = None

    def close(self) -> None:
        """Stop generating. Idempotent."""
        if self._generation is not None:
            self._generation.close()
        self._drafting.end()

    async def results(self) -> AsyncGenerator[Result, None]:
        """All partial results, then the final one.

        Raises:
            CoordinatorError: the engine failed.
        """
        if self._generation is None:
            yield self._final("none")
            return
        try:
            async for step in self._generation:
                partials, stop_type = self._take(step, self._generation)
                for partial in partials:
                    yield partial
                if stop_type is not None:
                    self.close()
                    self._counts.finished(self._timings)
                    yield self._final(stop_type)
                    return
        finally:
            self.close()
        raise CoordinatorError(
            f"The engine ended the answer after {len(self._tokens)} tokens without a reason."
        )

    def _take(self, step: Step, generation: Generation) -> tuple[list[Partial], StopType | None]:
        if not self._tokens:
            self._timings = Timings(
                num_prompt=len(self.prompt),
                num_cached=generation.num_cached,
                prompt_ms=1e3 * generation.prompt_s,
            )
            self._counts.read(self._timings)
        self._timings = self._timings.after(step)
        partials: list[Partial] = []
        self._truncated = step.truncated
        num_before = len(self._tokens)
        stop_type: StopType | None = None
        for emitted in step.tokens:
            partials += self._take_token(emitted)
            if self._text.stopping_word is not None:
                stop_type = "word"
                break
        if step.finish is not None and num_before + len(step.tokens) == len(self._tokens):
            if step.finish == "stop":
                stop_type = "eos"
            elif stop_type is None:
                stop_type = "limit"
        kept = self._tokens[num_before:]
        self._counts.passed(step, len(kept))
        self._drafting.passed(step, kept)
        return partials, stop_type

    def _take_token(self, emitted: Emitted) -> list[Partial]:
        """No result while a character is incomplete."""
        token = emitted.token
        self._tokens.append(token)
        self._timings = self._timings.with_token()
        text = self._text.take(self._piece(token), is_end=self._is_end(token))
        if text is None:
            return []
        probs = None
        if emitted.logprob is not None:
            probs = TokenProbs(token, emitted.logprob, emitted.top, text)
            self._probs.append(probs)
        is_timed = self.parameters.timings_per_token or self._text.stopping_word is not None
        timings = self._timings if is_timed else None
        return [Partial(text, token, len(self._tokens), timings, probs)]

    def _final(self, stop_type: StopType) -> Final:
        limit, truncated = self.parameters.num_predict, self._truncated
        if truncated is None:
            truncated = stop_type == "limit" and not 0 <= limit <= len(self._tokens)
        return Final(
            text=bytes(self._text.data),
            tokens=tuple(self._tokens),
            stop_type=stop_type,
            stopping_word=self._text.stopping_word or "",
            has_new_line=self._text.has_new_line,
            truncated=truncated,
            timings=self._timings,
            probs=tuple(self._probs),
        )
