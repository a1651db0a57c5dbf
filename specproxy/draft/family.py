"""Are draft and target of one family? Their vocabularies, compared token by token over HTTP.

The target tells its texts by `/detokenize` only, in chunks, and JSON turns broken UTF-8 into
U+FFFD. So every id is sent where its text shows:
- a token that is not UTF-8 by itself is wrapped in single-byte tokens that make it whole;
- all ids are sent twice, in two orders, for a text that moved from one token to its neighbour
  in one order cannot hide in the other;
- what differs is halved until one id is left.
Then the specials by their literals, and what is put before a text (BOS).
"""

import asyncio
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Protocol, TypeVar

from specproxy.core.vocabulary import Vocabulary
from specproxy.errors import VocabularyMismatch

T = TypeVar("T")

CHUNK_TOKENS = 1024
_NUM_REQUESTS = 4
_STRIDE = 97
_BROKEN = re.compile("\ufffd+")
_LEADS = (b"", b"\xc3", b"\xe1", b"\xe1\x80", b"\xf1", b"\xf1\x80", b"\xf1\x80\x80")
_TAILS = (b"", *(bytes([b]) + b"\x80" * n for n in range(3) for b in (0x80, 0x90, 0xA0)))


class TargetTokens(Protocol):
    """What the check asks of the target."""

    async def tokenize(self, content: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """POST /tokenize."""
        ...

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """POST /detokenize: specials as their literals, broken UTF-8 as U+FFFD."""
        ...

    async def num_tokens(self) -> int:
        """Size of the vocabulary: `data[0].meta.n_vocab` of GET /v1/models."""
        ...


async def check_family(
    draft: Vocabulary, target: TargetTokens, *, draft_name: str, target_name: str
) -> int:
    """Compare the two vocabularies; one may be padded beyond the other.

    Returns:
        The number of ids that both have. The drafter must not draft others.

    Raises:
        VocabularyMismatch: names both models and the first difference found.
        TargetError: whatever `target` raises.
    """
    check = _Check(draft, target, f"Draft model {draft_name} and target model {target_name}")
    num_shared = min(len(draft), await target.num_tokens())
    await check.texts(range(num_shared))
    await check.texts([i for start in range(_STRIDE) for i in range(start, num_shared, _STRIDE)])
    await check.specials(range(num_shared))
    await check.beginnings()
    return num_shared


class _Check:
    def __init__(self, draft: Vocabulary, target: TargetTokens, pair: str) -> None:
        self._draft = draft
        self._target = target
        self._pair = pair

    async def texts(self, tokens: Sequence[int]) -> None:
        """Every token's text, in chunks of the given order."""
        chunks = _chunked(tokens, CHUNK_TOKENS)
        for group in _chunked(chunks, _NUM_REQUESTS):
            equal = await asyncio.gather(*(self._same_text(chunk) for chunk in group))
            if not all(equal):
                await self._find_text(group[equal.index(False)])

    async def specials(self, tokens: Sequence[int]) -> None:
        """Every literal must be read as the same token, and none may hide in plain text."""
        literals = [text for text in map(self._draft.special_text, tokens) if text]
        for chunk in _chunked(literals, CHUNK_TOKENS):
            if await self._same_tokens("".join(chunk), parse_special=True):
                continue
            for literal in chunk:
                await self._compare_tokens(literal, parse_special=True)
            await self._compare_tokens("".join(chunk), parse_special=True)

    async def beginnings(self) -> None:
        """What is put before a text, and before none."""
        for text in ("", "a"):
            await self._compare_tokens(text, add_special=True)

    async def _same_text(self, chunk: Sequence[int]) -> bool:
        sent = [t for token in chunk for t in self._wrapped(token)]
        return _collapsed(await self._target.detokenize(sent)) == self._rendered(sent)

    async def _find_text(self, chunk: Sequence[int]) -> None:
        """Halve a chunk that differs down to one token, and raise."""
        whole = chunk
        while len(chunk) > 1:
            left, right = chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]
            if not await self._same_text(left):
                chunk = left
            elif not await self._same_text(right):
                chunk = right
            else:  # only side by side: a text's end moved to the next token
                raise self._mismatch(f"the texts of tokens {whole[0]} to {whole[-1]} differ")
        token = chunk[0]
        ours = self._rendered([token])
        theirs = await self._target.detokenize([token])
        raise self._mismatch(
            f"token {token} is {self._draft.piece(token)!r} in the draft and differs in the target"
            if ours == _collapsed(theirs)
            else f"token {token} is {ours!r} in the draft and {theirs!r} in the target"
        )

    async def _same_tokens(self, text: str, *, parse_special: bool) -> bool:
        theirs = await self._target.tokenize(text, add_special=False, parse_special=parse_special)
        return theirs == self._draft.tokenize(text, parse_special=parse_special)

    async def _compare_tokens(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> None:
        theirs = await self._target.tokenize(
            text, add_special=add_special, parse_special=parse_special
        )
        ours = self._draft.tokenize(text, add_special=add_special, parse_special=parse_special)
        if ours != theirs:
            raise self._mismatch(
                f"{text[:80]!r} is tokens {ours[:8]} in the draft and {theirs[:8]} in the target"
                + (" with the tokens that begin a text" if add_special else "")
            )

    def _wrapped(self, token: int) -> list[int]:
        """`token` with the single-byte tokens around it that make its text UTF-8."""
        if self._draft.special_text(token) is not None or _is_utf8(self._draft.piece(token)):
            return [token]
        for lead, tail in _surroundings(self._draft.piece(token)):
            around = [self._draft.token_of(bytes([b])) for b in lead + tail]
            known = [t for t in around if t is not None]
            if len(known) == len(around):
                return [*known[: len(lead)], token, *known[len(lead) :]]
        return [token]

    def _rendered(self, tokens: Sequence[int]) -> str:
        """The draft's answer to /detokenize."""
        rendered = b"".join(map(self._bytes_of, tokens))
        return _collapsed(rendered.decode("utf-8", "replace"))

    def _bytes_of(self, token: int) -> bytes:
        literal = self._draft.special_text(token)
        return self._draft.piece(token) if literal is None else literal.encode()

    def _mismatch(self, difference: str) -> VocabularyMismatch:
        return VocabularyMismatch(
            f"{self._pair} do not share their vocabulary: {difference}.",
            remedy="Use a draft model of the target's own family and generation.",
        )


def _chunked(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def _collapsed(text: str) -> str:
    """Decoders disagree on how many U+FFFD a broken sequence is: make each run one."""
    return _BROKEN.sub("\ufffd", text)


@lru_cache(maxsize=4096)  # each is asked for twice, and many vocabularies have the same
def _surroundings(piece: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """What may stand before and after `piece` so that all is UTF-8."""
    return tuple(
        (lead, tail) for lead, tail in product(_LEADS, _TAILS) if _is_utf8(lead + piece + tail)
    )


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
