"""How far ahead of the target to draft, and in what blocks.

A seed sent during one pass is read in the next and serves the one after: the draft must stay two
passes ahead of what the target has confirmed, and no more, for what lies beyond a miss is void.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """The speculative window.

    Attributes:
        block_tokens: drafted per call, so that a seed can leave early and a miss stops soon.
        lookahead_tokens: drafted ahead of the target at most.
    """

    block_tokens: int = 8
    lookahead_tokens: int = 32

    def next_block(self, num_ahead: int) -> int:
        """Tokens to draft next, given `num_ahead` drafted ones; 0: wait for the target."""
        return max(0, min(self.block_tokens, self.lookahead_tokens - num_ahead))
