"""Where the target is: from the stream of an answer to the target's token sequence.

Native routes name the ids. Chat routes only send text, nearly always one token's text per
event; the follower then takes the token whose piece that is, preferring what the draft expects.
Where a text can be cut in several ways it may guess wrong; that costs speed for a few tokens
and heals, since the pool's keys are only `n_match` tokens long.
"""

from collections.abc import Sequence

from specproxy.core.vocabulary import Vocabulary


class Follower:
    """Turns what one answer's stream says into token ids. One instance per answer.

    Attributes:
        num_guessed: texts that had to be tokenised anew, and so may be cut otherwise.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.num_guessed = 0
        self._vocabulary = vocabulary
        self._held = b""  # text of known ids that the target still holds back

    def follow(self, text: str, tokens: Sequence[int] | None, expected: Sequence[int]) -> list[int]:
        """Ids that one event added to the answer.

        Args:
            text: the event's new text, content and reasoning alike.
            tokens: its ids where the route gives them; None or empty where not.
            expected: ids that the draft expects next; may be empty.
        """
        said = text.encode("utf-8", "surrogatepass")
        if not tokens:
            return self._read(said, expected) if said else []
        held, new = self._held, b"".join(self._piece(token) for token in tokens)
        told = held + new
        self._held = told[len(said) :] if told.startswith(said) else b""
        if len(said) > len(told) and said.startswith(held) and said.endswith(new):
            # pieces of an incomplete character have no event of their own
            return [*self._cover(said[len(held) : len(said) - len(new)], expected), *tokens]
        return list(tokens)

    def _read(self, said: bytes, expected: Sequence[int]) -> list[int]:
        """Ids of one event's text, nearly always a single token's."""
        if expected and self._piece(expected[0]) == said:
            return [expected[0]]
        single = self._vocabulary.token_of(said)
        if single is not None:
            return [single]
        found, rest = self._expected(said, expected)
        if not rest:
            return found
        while found and _is_torn(rest):
            rest = self._piece(found.pop()) + rest
        self.num_guessed += 1
        return found + self._vocabulary.tokenize(rest.decode("utf-8", "ignore"))

    def _cover(self, said: bytes, expected: Sequence[int]) -> list[int]:
        """Ids of the bytes of a cut character: as expected, else byte by byte."""
        found, rest = self._expected(said, expected)
        singles = [self._vocabulary.token_of(rest[i : i + 1]) for i in range(len(rest))]
        return found + [token for token in singles if token is not None]

    def _expected(self, said: bytes, expected: Sequence[int]) -> tuple[list[int], bytes]:
        """The expected ids that `said` begins with, and the rest of it."""
        found: list[int] = []
        for token in expected:
            piece = self._piece(token)
            if not piece or not said.startswith(piece):
                break
            found.append(token)
            said = said[len(piece) :]
        return found, said

    def _piece(self, token: int) -> bytes:
        return self._vocabulary.piece(token) if 0 <= token < len(self._vocabulary) else b""


def _is_torn(text: bytes) -> bool:
    """Whether `text` begins within a character of UTF-8."""
    return bool(text) and text[0] & 0xC0 == 0x80
