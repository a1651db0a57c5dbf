"""The scripted "model": which token follows a context, as a pure function of the context.

Invariant: `distribution(context)` depends on nothing but the language and the tokens, so the
target, a drafter and the oracle `generate` can never disagree by accident. A sampled token
costs one draw, and draw `i` of a request is a pure function of its seed and `i`.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from specproxy.testing.vocabulary import EMOJI, END_THINK, FIRST_BYTE, THINK, ToyVocabulary

Distribution = tuple[tuple[int, float], ...]

NUM_CANDIDATES = 5
SURE = (0.96, 0.02, 0.01, 0.006, 0.004)
UNSURE = (0.5, 0.22, 0.14, 0.09, 0.05)
STRETCH = 8
LONGEST_UNIT = 3
"""Tokens of a word, its last not counted."""
MAX_KNOWN = 10_000
"""Distributions that are remembered."""
ASSISTANT = "<|im_start|>assistant\n"


@dataclass(frozen=True)
class SamplingParams:
    """How a token is taken from a distribution; the order is llama-server's chain."""

    temperature: float = 0.0
    seed: int = 0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    ignore_eos: bool = False


@dataclass(frozen=True)
class Language:
    """A deterministic next-token distribution over a toy vocabulary.

    Attributes:
        key: another key is another model over the same vocabulary.
        order: how many last tokens matter (beside the position).
        loops: forget the position, so that text repeats and the n-gram pool finds itself.
        mean_length: on average one in so many greedy tokens ends the turn; 0: never.
        thinks: chat answers begin with a `<think>` span.
        scripts: (prompt tokens, output tokens) that override everything, then end of turn.
    """

    vocabulary: ToyVocabulary = field(default_factory=ToyVocabulary)
    key: int = 0
    order: int = 3
    loops: bool = False
    mean_length: int = 150
    thinks: bool = False
    scripts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    _known: dict[tuple[int, ...], Distribution] = field(init=False, repr=False, compare=False)
    _starts: list[int] = field(init=False, repr=False, compare=False)
    _follow: dict[tuple[int, ...], list[int]] = field(init=False, repr=False, compare=False)
    _assistant: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        units = _units(self.vocabulary)
        follow: dict[tuple[int, ...], list[int]] = {}
        for unit in units:
            for cut in range(1, len(unit)):
                nexts = follow.setdefault(unit[:cut], [])
                if unit[cut] not in nexts:
                    nexts.append(unit[cut])
        object.__setattr__(self, "_known", {})
        object.__setattr__(self, "_starts", [unit[0] for unit in units])
        object.__setattr__(self, "_follow", follow)
        object.__setattr__(
            self, "_assistant", self.vocabulary.tokenize(ASSISTANT, parse_special=True)
        )

    def with_script(
        self, prompt: Sequence[int] | str, output: Sequence[int] | str, *, chat: bool = False
    ) -> "Language":
        """A language that answers `prompt` with exactly `output`, then ends the turn.

        Strings are tokenised as the server does; `chat` reads `prompt` as one user message.
        """
        if isinstance(prompt, str):
            text = f"<|im_start|>user\n{prompt}<|im_end|>\n{ASSISTANT}" if chat else prompt
            prompt = self.vocabulary.tokenize(text, add_special=True, parse_special=True)
        if isinstance(output, str):
            output = self.vocabulary.tokenize(output)
        return replace(self, scripts=(*self.scripts, (tuple(prompt), tuple(output))))

    def distribution(self, context: Sequence[int]) -> Distribution:
        """(token, probability), most probable first; the probabilities add up to 1."""
        if self.scripts or self.thinks:
            return self._found(context)
        key = (len(context), *context[-max(self.order, LONGEST_UNIT) :])  # all that counts else
        known = self._known.get(key)
        if known is None:  # target, oracle and drafter ask for the same
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[key] = self._found(context)
        return known

    def _found(self, context: Sequence[int]) -> Distribution:
        scripted = self._scripted(context)
        if scripted is not None:
            return ((scripted, 1.0),)
        number = self._hash(context)
        candidates = self._continuation(context)
        if candidates:
            first = number % len(candidates)
            ordered = candidates[first:] + candidates[:first]
            return _weighted(ordered, SURE)
        if self.thinks:
            thought = self._thought(context, number)
            if thought is not None:
                return ((thought, 1.0),)
        starts = self._starts
        ordered = [starts[(number >> (9 * i)) % len(starts)] for i in range(NUM_CANDIDATES)]
        if self.mean_length and (number >> 48) % self.mean_length == 0:
            ordered[0] = self.vocabulary.end_of_turn
        stretch = _digest(self.key, [len(context) // STRETCH])
        return _weighted(ordered, SURE if stretch % 3 else UNSURE)

    def best(self, context: Sequence[int]) -> int:
        """The most probable token."""
        return self.distribution(context)[0][0]

    def _hash(self, context: Sequence[int]) -> int:
        position = 0 if self.loops else len(context)
        return _digest(self.key, [position, *context[-self.order :]])

    def _scripted(self, context: Sequence[int]) -> int | None:
        for prompt, output in self.scripts:
            done = len(context) - len(prompt)
            if 0 <= done <= len(output) and tuple(context) == prompt + output[:done]:
                return output[done] if done < len(output) else self.vocabulary.end_of_turn
        return None

    def _continuation(self, context: Sequence[int]) -> list[int]:
        for length in range(min(LONGEST_UNIT, len(context)), 0, -1):
            found = self._follow.get(tuple(context[-length:]))
            if found:
                return found
        return []

    def _thought(self, context: Sequence[int], number: int) -> int | None:
        think = self.vocabulary.special(THINK)
        end = self.vocabulary.special(END_THINK)
        if list(context[-len(self._assistant) :]) == self._assistant:
            return think
        for age, token in enumerate(reversed(context)):
            if token == end:
                return None
            if token == think:
                if age > 3 and number % 10 == 0:
                    return end
                return self._starts[number % len(self._starts)]
        return None


def sample(
    distribution: Distribution, params: SamplingParams, draw: int, *, end: int | None = None
) -> int:
    """Take one token: greedy at temperature <= 0, else top-k, top-p, min-p, temperature, draw.

    Args:
        draw: how many tokens this request has sampled before.
        end: the token that `ignore_eos` forbids.
    """
    kept = [(t, w) for t, w in distribution if not (params.ignore_eos and t == end)]
    if not kept:
        return distribution[0][0] if not params.ignore_eos else FIRST_BYTE + ord(" ")
    if params.temperature <= 0:
        return kept[0][0]
    if params.top_k > 0:
        kept = kept[: params.top_k]
    total = sum(w for _, w in kept)
    mass = 0.0
    for count, (_, weight) in enumerate(kept, start=1):
        mass += weight / total
        if mass >= params.top_p:
            kept = kept[:count]
            break
    kept = [(t, w) for t, w in kept if w >= params.min_p * kept[0][1]]
    heated = [(t, (w / kept[0][1]) ** (1 / params.temperature)) for t, w in kept]
    point = _digest(params.seed, [draw]) / 2**64 * sum(w for _, w in heated)
    for token, weight in heated:
        point -= weight
        if point < 0:
            return token
    return heated[-1][0]


def generate(
    language: Language,
    prompt_tokens: Sequence[int],
    *,
    max_tokens: int = 64,
    sampling: SamplingParams | None = None,
) -> list[int]:
    """What the target alone emits: the oracle. An end-of-turn token is the last one returned."""
    params = sampling or SamplingParams()
    end = language.vocabulary.end_of_turn
    context = list(prompt_tokens)
    for draw in range(max_tokens):
        context.append(sample(language.distribution(context), params, draw, end=end))
        if language.vocabulary.is_end(context[-1]):
            break
    return context[len(prompt_tokens) :]


def _units(vocabulary: ToyVocabulary) -> list[tuple[int, ...]]:
    """Words of the language as tokens; some of several tokens, some tokenised oddly."""
    first_word = FIRST_BYTE + 256
    units: list[tuple[int, ...]] = [
        (t,) for t in range(first_word, len(vocabulary)) if vocabulary.piece(t)
    ]
    units += [tuple(vocabulary.tokenize(emoji)) for emoji in EMOJI]
    for odd in ((" Pan", "tom"), (" light", "house"), (" 12", "34")):
        tokens = [vocabulary.token_of(part.encode()) for part in odd]
        if all(token is not None for token in tokens):
            units.append(tuple(token for token in tokens if token is not None))
    return units


def _weighted(ordered: Sequence[int], weights: Sequence[float]) -> Distribution:
    if len(set(ordered)) == len(ordered):  # as almost always
        total = sum(weights[: len(ordered)])
        return tuple((token, w / total) for token, w in zip(ordered, weights, strict=False))
    merged: dict[int, float] = {}
    for token, weight in zip(ordered, weights, strict=False):
        merged[token] = merged.get(token, 0.0) + weight
    total = sum(merged.values())
    return tuple(sorted(((t, w / total) for t, w in merged.items()), key=lambda item: -item[1]))


def _digest(key: int, numbers: Sequence[int]) -> int:
    data = struct.pack(f"<{len(numbers) + 1}q", key % 2**63, *numbers)
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
