"""The same-family check: toy vocabularies that differ in one thing each."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from specproxy.draft.family import check_family
from specproxy.errors import VocabularyMismatch

WORDS = [f" word{i}".encode() for i in range(3000)]
BYTES = [bytes([b]) for b in range(256)]
BROKEN = [b"\xe4\xb8", b"\x96\xe7", b"\xf0\x9f\xa6", b"\x99!", b"\xc0\xc0"]
SPECIALS = ["<|begin|>", "<|end|>", "<tool>"]


@dataclass
class Toy:
    """A vocabulary, and a llama-server's answers about it."""

    pieces: list[bytes] = field(default_factory=lambda: [*BYTES, *BROKEN, *WORDS])
    specials: dict[int, str] = field(default_factory=dict)
    adds_bos: bool = False
    name: str = "toy"
    num_requests: int = 0

    def __post_init__(self) -> None:
        if not self.specials:
            for literal in SPECIALS:
                self.specials[len(self.pieces)] = literal
                self.pieces.append(b"")

    def __len__(self) -> int:
        return len(self.pieces)

    def piece(self, token: int) -> bytes:
        return self.pieces[token]

    def special_text(self, token: int) -> str | None:
        return self.specials.get(token)

    def token_of(self, piece: bytes) -> int | None:
        return self.pieces.index(piece) if piece in self.pieces else None

    def is_end(self, token: int) -> bool:
        return self.specials.get(token) == "<|end|>"

    def tokenize(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        by_literal = {literal: token for token, literal in self.specials.items()}
        pattern = "|".join(map(re.escape, by_literal))
        tokens = [next(iter(self.specials))] if add_special and self.adds_bos else []
        for part in re.split(f"({pattern})", text) if parse_special else [text]:
            if part in by_literal and parse_special:
                tokens.append(by_literal[part])
            else:
                tokens += [self.pieces.index(bytes([b])) for b in part.encode()]
        return tokens


class Server:
    """What llama-server makes of a toy: each broken byte becomes a U+FFFD of its own."""

    def __init__(self, toy: Toy) -> None:
        self._toy = toy
        self.num_requests = 0

    async def tokenize(self, content: str, *, add_special: bool, parse_special: bool) -> list[int]:
        self.num_requests += 1
        return self._toy.tokenize(content, add_special=add_special, parse_special=parse_special)

    async def detokenize(self, tokens: Sequence[int]) -> str:
        self.num_requests += 1
        rendered = b"".join(self._bytes(tokens))
        text = rendered.decode("utf-8", "surrogateescape")
        return re.sub("[\udc80-\udcff]", "\ufffd", text)

    async def num_tokens(self) -> int:
        return len(self._toy)

    def _bytes(self, tokens: Sequence[int]) -> Iterable[bytes]:
        for token in tokens:
            literal = self._toy.special_text(token)
            yield self._toy.piece(token) if literal is None else literal.encode()


async def check(draft: Toy, target: Toy) -> int:
    return await check_family(
        draft, Server(target), draft_name="small.gguf", target_name="large.gguf"
    )


async def test_equal_vocabularies_pass() -> None:
    assert await check(Toy(), Toy()) == len(Toy())


@pytest.mark.parametrize("padded", ["draft", "target"])
async def test_padding_passes_and_the_shared_size_is_told(padded: str) -> None:
    plain, longer = Toy(), Toy()
    longer.pieces += [b"[PAD]"] * 64
    pair = (longer, plain) if padded == "draft" else (plain, longer)
    assert await check(*pair) == len(plain)


async def test_another_text_is_found_to_the_id() -> None:
    target = Toy()
    target.pieces[2000] = b" other"
    with pytest.raises(VocabularyMismatch) as caught:
        await check(Toy(), target)
    message = str(caught.value)
    assert "small.gguf" in message
    assert "large.gguf" in message
    assert "token 2000 is ' word1739' in the draft and ' other' in the target" in message
    assert caught.value.remedy


async def test_the_first_of_many_differences_is_named() -> None:
    target = Toy()
    target.pieces[700:] = [*target.pieces[701:], b"x"]
    with pytest.raises(VocabularyMismatch, match="token 700 "):
        await check(Toy(), target)


async def test_swapped_bytes_are_seen_although_both_are_broken_alone() -> None:
    target = Toy()
    target.pieces[0x85], target.pieces[0x86] = target.pieces[0x86], target.pieces[0x85]
    with pytest.raises(VocabularyMismatch, match="token 133 "):
        await check(Toy(), target)


@pytest.mark.parametrize("index", [256, 257, 258, 259])
async def test_other_broken_pieces_are_seen(index: int) -> None:
    target = Toy()
    piece = target.pieces[index]
    changed = bytes([piece[0], piece[1] ^ 1, *piece[2:]])
    target.pieces[index] = changed
    with pytest.raises(VocabularyMismatch, match=f"token {index} "):
        await check(Toy(), target)


async def test_a_text_that_moved_to_the_next_token_is_seen() -> None:
    draft, target = Toy(), Toy()
    draft.pieces[500:502] = [b"ab", b"c"]
    target.pieces[500:502] = [b"a", b"bc"]
    with pytest.raises(VocabularyMismatch, match=r"token 50[01] "):
        await check(draft, target)


async def test_a_special_that_is_plain_text_in_the_target_is_seen() -> None:
    target = Toy()
    token = next(t for t, literal in target.specials.items() if literal == "<tool>")
    del target.specials[token]
    target.pieces[token] = b"<tool>"
    with pytest.raises(VocabularyMismatch, match="'<tool>' is tokens"):
        await check(Toy(), target)


async def test_another_beginning_is_seen() -> None:
    with pytest.raises(VocabularyMismatch, match="begin a text"):
        await check(Toy(), Toy(adds_bos=True))


async def test_few_requests_are_made() -> None:
    server = Server(Toy())
    await check_family(Toy(), server, draft_name="d", target_name="t")
    assert server.num_requests <= 2 * 4 + 4
