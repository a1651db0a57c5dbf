"""What is computed from measured answers. Pure.

Invariant: rates over several answers are totals over totals (never means of rates), so that a
short answer weighs what it is worth; medians are given beside them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, as its client saw it.

    Attributes:
        text: all of it.
        finish_reason: `length` or `stop`.
        num_tokens: the target's own count.
        num_prompt: tokens of the prompt.
        num_prompt_read: those of them that were not in the prefix cache.
        num_proposed, num_accepted: the target's `draft_n` and `draft_n_accepted`.
        ttft_s: from the request to the first text.
        total_s: from the request to the end of the answer.
        server_s: what the target says that generating took.
    """

    text: str
    finish_reason: str
    num_tokens: int
    num_prompt: int
    num_prompt_read: int
    num_proposed: int
    num_accepted: int
    ttft_s: float
    total_s: float
    server_s: float

    @property
    def decode_s(self) -> float:
        """From the first text to the end: the time of all tokens but the first."""
        return self.total_s - self.ttft_s

    @property
    def num_passes(self) -> int:
        """Passes of the target: each emits one token of its own and those it accepted."""
        return self.num_tokens - self.num_accepted

    @property
    def num_decode_passes(self) -> int:
        """Those that can verify a draft: all but the one that reads the prompt."""
        return max(0, self.num_passes - 1)


@dataclass(frozen=True, slots=True)
class Summary:
    """Answers of one arm, added up. Rates are None where there is nothing to divide.

    Attributes:
        tokens_per_s: decoding: tokens after each answer's first over the time they took.
        tokens_per_s_median: the same per answer, the median.
        tokens_per_s_whole: all tokens over the whole time of the requests, prompts included.
        tokens_per_s_server: as `tokens_per_s`, with the target's own clock.
        ttft_ms, ttft_ms_max: median and worst time to first token.
        acceptance_rate: accepted / proposed, by the target.
        tokens_per_pass: block efficiency, the prompt's pass and its token included.
        mean_accepted_length: drafted tokens that a pass accepts, of those that decode; the token
            that each pass adds by itself is not counted.
        pass_ms: what a pass that decodes takes, drafting included where the server does it.
    """

    num_answers: int
    num_tokens: int
    num_passes: int
    num_proposed: int
    num_accepted: int
    seconds: float
    tokens_per_s: float | None
    tokens_per_s_median: float | None
    tokens_per_s_whole: float | None
    tokens_per_s_server: float | None
    ttft_ms: float | None
    ttft_ms_max: float | None
    acceptance_rate: float | None
    tokens_per_pass: float | None
    mean_accepted_length: float | None
    pass_ms: float | None


def summarise(answers: Sequence[Answer]) -> Summary:
    """Add `answers` up."""

    def total(value: Callable[[Answer], float]) -> float:
        return sum(map(value, answers))

    num_tokens = sum(one.num_tokens for one in answers)
    num_passes = sum(one.num_passes for one in answers)
    num_proposed = sum(one.num_proposed for one in answers)
    num_accepted = sum(one.num_accepted for one in answers)
    # The first token's time is the prompt's: the rest is what decoding did.
    num_decoded = sum(max(0, one.num_tokens - 1) for one in answers)
    num_decode_passes = sum(one.num_decode_passes for one in answers)
    decode_s = total(lambda one: one.decode_s)
    rates = [rate for one in answers if (rate := _rate(one.num_tokens - 1, one.decode_s))]
    ttfts = [1e3 * one.ttft_s for one in answers]
    return Summary(
        num_answers=len(answers),
        num_tokens=num_tokens,
        num_passes=num_passes,
        num_proposed=num_proposed,
        num_accepted=num_accepted,
        seconds=total(lambda one: one.total_s),
        tokens_per_s=_rate(num_decoded, decode_s),
        tokens_per_s_median=median(rates) if rates else None,
        tokens_per_s_whole=_rate(num_tokens, total(lambda one: one.total_s)),
        tokens_per_s_server=_rate(num_decoded, total(lambda one: one.server_s)),
        ttft_ms=median(ttfts) if ttfts else None,
        ttft_ms_max=max(ttfts) if ttfts else None,
        acceptance_rate=_rate(num_accepted, num_proposed),
        tokens_per_pass=_rate(num_tokens, num_passes),
        mean_accepted_length=(_rate(num_accepted, num_decode_passes) if num_proposed else None),
        pass_ms=_rate(1e3 * decode_s, num_decode_passes),
    )


def _rate(amount: float, over: float) -> float | None:
    return amount / over if over > 0 and amount >= 0 else None


@dataclass(frozen=True, slots=True)
class Portion:
    """The part of a speed that one prompt, or prompts asked together, contributed."""

    num_tokens: int
    seconds: float


def decoding(answers: Sequence[Answer]) -> list[Portion]:
    """Each answer's decoding: what one client sees."""
    return [Portion(max(0, one.num_tokens - 1), one.decode_s) for one in answers]


def throughput(answers: Sequence[Answer], num_clients: int) -> list[Portion]:
    """What clients get together, prompts included: answers of `num_clients` at a time, in order,
    as long as the longest of them took."""
    rounds = [answers[i : i + num_clients] for i in range(0, len(answers), num_clients)]
    return [
        Portion(sum(one.num_tokens for one in together), max(one.total_s for one in together))
        for together in rounds
    ]


def speed(parts: Sequence[Portion]) -> float | None:
    """Tokens per second of all `parts`."""
    return _rate(sum(one.num_tokens for one in parts), sum(one.seconds for one in parts))


def ratios(parts: Sequence[Portion], base: Sequence[Portion]) -> list[float]:
    """How many times as fast each of `parts` is as the one of `base` that asked the same; without
    those that took no time or said nothing."""
    pairs = zip(parts, base, strict=True)
    found = [ratio(speed([one]), speed([other])) for one, other in pairs]
    return [one for one in found if one is not None]


def ratio(rate: float | None, base: float | None) -> float | None:
    """How many times as fast `rate` is as `base`."""
    return None if rate is None or not base else rate / base
