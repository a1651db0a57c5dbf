"""What the follower and the same-family check need to know of a model's tokens."""

from collections.abc import Sequence
from typing import Protocol


class Vocabulary(Protocol):
    """Token ids and their texts.

    Invariant: immutable and safe to call from any thread.
    """

    @property
    def name(self) -> str:
        """The model's name, for messages."""
        ...

    def __len__(self) -> int:
        """Number of token ids, padding included."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes that `token` adds to a text; empty for control tokens, as in a stream.

        Raises:
            IndexError: `token` is not an id of this vocabulary.
        """
        ...

    def special_text(self, token: int) -> str | None:
        """The literal of a control or user-defined token (`<|im_end|>`); None for others."""
        ...

    def token_of(self, piece: bytes) -> int | None:
        """The one ordinary token whose bytes are exactly `piece`; the lowest id if several."""
        ...

    def tokenize(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        """Token ids of `text`.

        Args:
            add_special: add BOS/EOS where the model wants them.
            parse_special: read control-token literals as tokens.
        """
        ...

    def is_end(self, token: int) -> bool:
        """Whether `token` ends a generation (EOS, end of turn)."""
        ...


def decode(vocabulary: Vocabulary, tokens: Sequence[int]) -> str:
    """Text of `tokens`; broken UTF-8 becomes U+FFFD."""
    return b"".join(vocabulary.piece(token) for token in tokens).decode("utf-8", "replace")
