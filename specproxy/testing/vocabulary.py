"""A vocabulary small enough to read, with the traps of a large one.

Every byte is a token (byte fallback), some words have several tokenisations (" Pantom" is one
token and also " Pan" + "tom"), emoji exist only as several byte tokens, control tokens have no
text in a stream, user-defined ones (`<think>`) have.

Invariant: `tokenize` is greedy longest match, and decoding its result gives the text back.
"""

from collections.abc import Sequence

BOS = "<s>"
IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
THINK = "<think>"
END_THINK = "</think>"
CONTROL = (BOS, IM_START, IM_END)
USER_DEFINED = (THINK, END_THINK)
FIRST_BYTE = len(CONTROL) + len(USER_DEFINED)

WORDS = (
    *(" the", " a", " of", " and", " to", " in", " it", " is", " was", " on", " for", " that"),
    *(" Pan", "tom", " Pantom", " Pantomime", "ime", " light", "house", " lighthouse", " sea"),
    *(" sun", " moon", " river", " stone", " bird", " small", " old", " slow", " deep", " green"),
    *(" ran", " saw", " said", " fell", " rose", " sang", " keep", "er", "ing", "ed", "ly", "s"),
    *("The", "It", "A", "So", ".", ",", "!", "?", "\n", "\n\n", "user", "assistant", "system"),
    *(" naïve", "é", " café", " über", " 12", "34", " 1234", "  ", "    ", "Hello", " world"),
)
EMOJI = ("😀", "😂", "🚀", "日", "本")


class ToyVocabulary:
    """Implements `specproxy.core.vocabulary.Vocabulary`.

    Args:
        name: the model's name in messages.
        words: tokens after the single bytes; another order is another vocabulary.
        add_bos: whether `add_special` puts `<s>` in front.
        num_padding: ids at the end that stand for nothing.
    """

    def __init__(
        self,
        name: str = "toy",
        *,
        words: Sequence[str] = WORDS,
        add_bos: bool = True,
        num_padding: int = 3,
    ) -> None:
        self._name = name
        self.add_bos = add_bos
        self._specials = dict(enumerate((*CONTROL, *USER_DEFINED)))
        self._special_ids = {text: i for i, text in self._specials.items()}
        pieces = [b""] * len(CONTROL) + [text.encode() for text in USER_DEFINED]
        pieces += [bytes([value]) for value in range(256)]
        pieces += [word.encode() for word in words]
        self._pieces = pieces + [b""] * num_padding
        self._ids: dict[bytes, int] = {}
        for token, piece in enumerate(self._pieces):
            if token >= FIRST_BYTE and piece:
                self._ids.setdefault(piece, token)
        self._longest = max(len(piece) for piece in self._ids)

    def __repr__(self) -> str:
        return f"ToyVocabulary({self._name!r}, {len(self)} tokens)"

    @property
    def name(self) -> str:
        return self._name

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def bos(self) -> int:
        return self._special_ids[BOS]

    @property
    def end_of_turn(self) -> int:
        return self._special_ids[IM_END]

    def piece(self, token: int) -> bytes:
        if token < 0:
            raise IndexError(f"token {token} is not in {self!r}")
        return self._pieces[token]

    def special_text(self, token: int) -> str | None:
        return self._specials.get(token)

    def special(self, text: str) -> int:
        """The id of the control or user-defined token `text`."""
        return self._special_ids[text]

    def rendered(self, token: int) -> bytes:
        """`piece`, but control tokens show their literal, as in `/detokenize`."""
        literal = self.special_text(token)
        return literal.encode() if literal is not None else self.piece(token)

    def token_of(self, piece: bytes) -> int | None:
        return self._ids.get(piece)

    def is_like(self, other: object) -> bool:
        """Whether all tokens of `other` are the same, and what it puts before a text."""
        return type(self) is ToyVocabulary is type(other) and (self._pieces, self.add_bos) == (
            other._pieces,
            other.add_bos,
        )

    def is_end(self, token: int) -> bool:
        return token == self.end_of_turn

    def tokenize(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        tokens = [self.bos] if add_special and self.add_bos else []
        literals = (*CONTROL, *USER_DEFINED) if parse_special else USER_DEFINED
        rest = text
        while rest:
            cuts = [(rest.find(literal), literal) for literal in literals if literal in rest]
            at, literal = min(cuts, default=(len(rest), ""))
            tokens += self._longest_match(rest[:at].encode())
            if literal:
                tokens.append(self._special_ids[literal])
            rest = rest[at + len(literal) :]
        return tokens

    def _longest_match(self, data: bytes) -> list[int]:
        tokens = []
        at = 0
        while at < len(data):
            for length in range(min(self._longest, len(data) - at), 0, -1):
                token = self._ids.get(data[at : at + length])
                if token is not None:
                    tokens.append(token)
                    at += length
                    break
        return tokens
