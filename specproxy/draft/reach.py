"""How much of a context the draft reads: of a long one its end, for the draft only guesses.

The first token stays, too: it may be a BOS, without which some models are lost. What is left out
grows in steps, so that a context that grows is read anew once in a while and not each time. Pure.
"""

_NUM_STEPS = 4
_MIN_TOKENS = 256


class Reach:
    """The most that the draft keeps of one context.

    Attributes:
        num_tokens: what the model can hold of one.
    """

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self._num_shares = 1

    def __repr__(self) -> str:
        return f"<Reach {self._most} of {self.num_tokens}>"

    @property
    def is_narrow(self) -> bool:
        """Whether contexts get less than the model can hold, for the sake of others."""
        return self._most < self.num_tokens

    def narrow(self) -> None:
        """One context more wants to be held than there are cells for: each gets a smaller share."""
        self._num_shares += 1

    def widen(self) -> None:
        """There are no contexts any more."""
        self._num_shares = 1

    def num_left_out(self, num_tokens: int) -> int:
        """How many tokens of a context of `num_tokens` are left out, if nothing of it is cached."""
        if num_tokens <= self._most - self._margin:
            return 0
        num_over = num_tokens - (self._most - self._step)
        return -(-num_over // self._step) * self._step

    def suits(self, num_tokens: int) -> bool:
        """Whether the end of a long context may go on being so many tokens long."""
        return self._step <= num_tokens <= self._most - self._margin

    @property
    def _most(self) -> int:
        return max(min(self.num_tokens, _MIN_TOKENS), self.num_tokens // self._num_shares)

    @property
    def _step(self) -> int:
        return self._most // _NUM_STEPS

    @property
    def _margin(self) -> int:
        """What drafts need beyond their context."""
        return self._step // 4


def without(tokens: list[int], num_left_out: int) -> list[int]:
    """`tokens` without so many after the first."""
    return [*tokens[:1], *tokens[1 + num_left_out :]] if num_left_out else tokens
