"""One answer: follow the target, draft ahead of it, have the drafts seeded.

The answer itself is relayed elsewhere, byte for byte; a session only listens. Whatever goes
wrong in here ends speculation for this answer and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import closing
from typing import Protocol

import structlog

from specproxy.core.follower import Follower
from specproxy.core.stats import DraftCounts
from specproxy.core.tree import DraftTree
from specproxy.core.window import Window
from specproxy.draft.protocol import Drafter, DraftSequence
from specproxy.errors import SpecproxyError
from specproxy.target.seeding import Seeder

log = structlog.get_logger(__name__)


class Delta(Protocol):
    """What one event of the answer's stream added to it."""

    @property
    def text(self) -> str: ...

    @property
    def tokens(self) -> Sequence[int] | None: ...


class Session:
    """Speculation for one answer.

    Args:
        drafter: drafts; its vocabulary is the target's.
        seeder: carries drafts to the target.
        window: how far ahead to draft.
    """

    def __init__(self, drafter: Drafter, seeder: Seeder, window: Window) -> None:
        self._counts = DraftCounts()
        self._drafter = drafter
        self._seeder = seeder
        self._window = window
        self._follower = Follower(drafter.vocabulary)
        self._early: list[int] = []
        self._tree: DraftTree | None = None
        self._sequence: DraftSequence | None = None
        self._moved = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Session {self._tree!r}>"

    @property
    def counts(self) -> DraftCounts:
        """What became of the drafted tokens so far."""
        self._counts.num_seeded = self._tree.num_seeded if self._tree is not None else 0
        return self._counts

    async def speculate(self, prompt: Awaitable[Sequence[int]]) -> None:
        """Draft and seed ahead of the target until cancelled; returns early if that fails.

        Args:
            prompt: ids of the answer's prompt, as the target itself reads it.
        """
        try:
            self._tree = tree = DraftTree(await prompt)
            self._advance(tree, self._early)
            with self._seeder.serving(tree), closing(self._drafter.open()) as self._sequence:
                await self._draft_ahead(tree, self._sequence)
        except SpecproxyError as error:
            log.warning("speculation stopped for this answer", reason=str(error))
        except Exception:
            log.exception("speculation failed for this answer")

    async def _draft_ahead(self, tree: DraftTree, sequence: DraftSequence) -> None:
        while True:
            self._moved.clear()
            tip = tree.tip
            num_tokens = self._window.next_block(tree.num_ahead)
            drafted = []
            if num_tokens and not self._drafter.vocabulary.is_end(tip.token):
                drafted = await sequence.draft(tree.context(tip), num_tokens)
                self._counts.num_drafted += tree.extend(tip, drafted)
                self._seeder.wake()
            if not drafted:
                await self._moved.wait()

    def hear(self, delta: Delta) -> None:
        """The target said something more."""
        self._seeder.passed()
        if self._tree is None:
            self._early += self._follower.follow(delta.text, delta.tokens, ())
        else:
            expected = [node.token for node in self._tree.main_line()]
            self._advance(self._tree, self._follower.follow(delta.text, delta.tokens, expected))

    def _advance(self, tree: DraftTree, tokens: Sequence[int]) -> None:
        advance = tree.advance(tokens)
        self._counts.saw(advance)
        if self._sequence is not None and (advance.num_missed or advance.num_branched):
            self._sequence.cut()  # it drafts on a line that is void now
        self._moved.set()
