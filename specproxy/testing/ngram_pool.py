"""llama-server's `ngram-mod` pool, as in common/ngram-mod.cpp and `struct
common_speculative_impl_ngram_mod` of common/speculative.cpp (sdist llama-cpp-python 0.3.36).

Invariant: same calls, same drafts as the original: one hash table for all slots, keyed by the
last `n_match` tokens without a check of the key, so collisions are harmless and possible.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MULTIPLIER = 6364136223846793005
MASK = 2**64 - 1
DEFAULT_SIZE = 4 * 1024 * 1024
CHUNK = 32
MAX_OCCUPANCY = 0.25
LOW_ACCEPTANCE = 0.25
MAX_LOW_ROUNDS = 5


@dataclass
class _SlotInfo:
    last_added: int = 0
    num_drafted: int = 0
    num_low: int = 0


class NgramPool:
    """The pool of one server process.

    Args:
        n_match, n_min, n_max: `--spec-ngram-mod-n-match`, `-n-min`, `-n-max`.
        size: number of entries; 4Mi in the original.
    """

    def __init__(
        self, n_match: int = 24, n_min: int = 48, n_max: int = 64, *, size: int = DEFAULT_SIZE
    ) -> None:
        self.n_match = n_match
        self.n_min = n_min
        self.n_max = n_max
        self.size = size
        self.num_resets = 0
        self._entries: dict[int, int] = {}
        self._slots: dict[int, _SlotInfo] = {}

    def __repr__(self) -> str:
        return f"NgramPool(n_match={self.n_match}, {len(self._entries)}/{self.size} used)"

    @property
    def num_used(self) -> int:
        return len(self._entries)

    def index(self, key: Sequence[int]) -> int:
        """Hash of the first `n_match` tokens of `key`."""
        number = 0
        for token in key[: self.n_match]:
            number = (number * MULTIPLIER + token) & MASK
        return number % self.size

    def add(self, tokens: Sequence[int]) -> None:
        """Remember that `tokens[n_match]` follows `tokens[:n_match]`."""
        self._entries[self.index(tokens)] = tokens[self.n_match]

    def get(self, key: Sequence[int]) -> int | None:
        """The token remembered after `key`."""
        return self._entries.get(self.index(key))

    def reset(self) -> None:
        self._entries.clear()
        self.num_resets += 1

    def begin(self, slot: int, prompt: Sequence[int]) -> None:
        """A prompt has been processed in `slot`: all of it goes into the pool."""
        info = self._info(slot)
        info.last_added = 0
        info.num_drafted = 0
        if len(prompt) < self.n_match:
            return
        self._add_from(prompt, 0)
        info.last_added = len(prompt) - self.n_match
        if self.num_used / self.size > MAX_OCCUPANCY:
            self.reset()

    def draft(self, slot: int, tokens: Sequence[int], last: int) -> list[int]:
        """Tokens to verify after `tokens` + `last`; empty if the chain breaks before `n_min`.

        What the slot generated goes into the pool only when more than 32 positions are new.
        """
        info = self._info(slot)
        info.num_drafted = 0
        length = len(tokens)
        if length < self.n_match:
            return []
        if info.last_added + CHUNK < length:
            self._add_from(tokens, info.last_added)
            info.last_added = length - self.n_match
        chain = [*tokens[length - self.n_match + 1 :], last]
        for i in range(self.n_max):
            token = self.get(chain[i : i + self.n_match])
            if token is None:
                if i < self.n_min:
                    return []
                break
            chain.append(token)
        drafted = chain[self.n_match :]
        info.num_drafted = len(drafted)
        return drafted

    def accept(self, slot: int, num_accepted: int) -> None:
        """A draft was verified. Five rounds in a row under a quarter empty the pool."""
        info = self._info(slot)
        if info.num_drafted == 0:
            return
        if num_accepted / info.num_drafted >= LOW_ACCEPTANCE:
            info.num_low = 0
            return
        info.num_low += 1
        if info.num_low >= MAX_LOW_ROUNDS:
            self.reset()
            info.num_low = 0
            info.last_added = 0

    def _add_from(self, tokens: Sequence[int], start: int) -> None:
        for i in range(start, len(tokens) - self.n_match):
            self.add(tokens[i : i + self.n_match + 1])

    def _info(self, slot: int) -> _SlotInfo:
        return self._slots.setdefault(slot, _SlotInfo())
