"""Where the target is: from the stream of an answer to the target's token sequence.

Native routes name the ids. Chat routes only send text, nearly always one token's text per
event; the follower then takes the token whose piece that is, preferring what the draft expects.
Where a text can be cut in several ways it may guess wrong; that costs speed for a few tokens
and heals, since the pool's keys are only `n_match` tokens long.
"""

from collections.abc import Sequence

from specproxy.core.vocabulary import Vocabulary


class Follower:
    """Turns what one answer's stream says into token ids. One instance per answer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.num_guessed = 0

    def follow(self, text: str, tokens: Sequence[int] | None, expected: Sequence[int]) -> list[int]:
        """Ids that one event added to the answer.

        Args:
            text: the event's new text, content and reasoning alike.
            tokens: its ids where the route gives them; None or empty where not.
            expected: ids that the draft expects next; may be empty.
        """
        if tokens:
            return list(tokens)
        return self._read(text.encode("utf-8", "surrogatepass"), expected) if text else []

    def _read(self, piece: bytes, expected: Sequence[int]) -> list[int]:
        if expected and self._piece(expected[0]) == piece:
            return [expected[0]]
        single = self._vocabulary.token_of(piece)
        if single is not None:
            return [single]
        found: list[int] = []
        for token in expected:
            candidate = self._piece(token)
            if not candidate or not piece.startswith(candidate):
                break
            found.append(token)
            piece = piece[len(candidate) :]
        if piece:
            self.num_guessed += 1
            found += self._tokenize(piece)
        return found

    def _piece(self, token: int) -> bytes:
        return self._vocabulary.piece(token) if 0 <= token < len(self._vocabulary) else b""

    def _tokenize(self, piece: bytes) -> list[int]:
        """Ids of a text that is not one token's; the rest of a cut character is left out."""
        return self._vocabulary.tokenize(piece.decode("utf-8", "ignore"))
