"""One answer of a target that takes seeds: follow it, draft ahead of it, have the drafts seeded.

The answer itself is relayed elsewhere, byte for byte; a session only listens. Whatever goes
wrong in here ends speculation for this answer and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

import structlog

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.follower import Follower
from specproxy.core.observed import ObservedAnswer
from specproxy.core.stats import DraftCounts
from specproxy.core.tree import Advance, DraftTree
from specproxy.core.window import Window
from specproxy.core.worth import SHADOW_TOKENS, Trial, Worth
from specproxy.draft.protocol import Drafter
from specproxy.errors import SpecproxyError
from specproxy.lookahead import Lookahead
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
        acceptance, worth: what the route's answers have taught so far; they learn from this one
            too. `worth` says whether it is seeded at all.
        observed: told what becomes of the answer.
    """

    def __init__(
        self,
        drafter: Drafter,
        seeder: Seeder,
        window: Window,
        acceptance: AcceptanceModel,
        worth: Worth,
        observed: ObservedAnswer,
    ) -> None:
        self._counts = DraftCounts()
        self._drafter = drafter
        self._seeder = seeder
        self._window = window
        self._acceptance = acceptance
        self._worth = worth
        self._trial = worth.begin()
        self._enough: asyncio.Timeout | None = None
        self._observed = observed
        self._num_passes = -1
        self._num_followed = 0
        self._follower = Follower(drafter.vocabulary)
        self._early: list[int] = []
        self._tree: DraftTree | None = None
        self._lookahead: Lookahead | None = None
        self._deaf = False

    def __repr__(self) -> str:
        return f"<Session {self._tree!r}>"

    @property
    def counts(self) -> DraftCounts:
        """What became of the drafted tokens so far."""
        self._counts.num_seeded = self._tree.num_seeded if self._tree is not None else 0
        return self._counts

    async def speculate(self, prompt: Callable[[], Awaitable[Sequence[int]]]) -> None:
        """Draft and seed ahead of the target until cancelled; returns early if that fails.

        Args:
            prompt: finds the ids of the answer's prompt, as the target itself reads it. Not asked
                where the answer has ended before.
        """
        if self._trial is Trial.NONE:
            return
        try:
            self._tree = tree = DraftTree(await prompt())
            self._lookahead = lookahead = Lookahead(
                self._drafter,
                tree,
                self._window,
                self._acceptance,
                self._grew,
                self._observed.drafted,
            )
            self._observed.reads(tree.tokens)
            self._counts.saw(lookahead.advance(self._early))
            if self._trial is Trial.SHADOW:
                await self._until_enough(lookahead)
                if not self._worth.seeds:
                    return
                self._trial = Trial.SEED  # its drafts were right
            with self._seeder.serving(tree):
                await self._until_enough(lookahead)
        except* SpecproxyError as group:
            log.warning("speculation stopped for this answer", reason=str(group.exceptions[0]))
        except* Exception:
            log.exception("speculation failed for this answer")

    async def _until_enough(self, lookahead: Lookahead) -> None:
        """Draft until cancelled, or until that has shown not to pay."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as self._enough:
                try:
                    await lookahead.run()
                finally:
                    self._enough = None

    def _has_enough(self) -> None:
        enough, self._enough = self._enough, None  # once: what expires cannot be set again
        if enough is not None:
            enough.reschedule(0.0)

    def _grew(self, num_tokens: int) -> None:
        self._counts.num_drafted += num_tokens
        self._seeder.wake()

    def hear(self, delta: Delta) -> None:
        """The target said something more. Never raises: the answer is being relayed."""
        if self._deaf:
            return
        try:
            self._heard_pass()
            if self._tree is None or self._lookahead is None:
                tokens = self._follower.follow(delta.text, delta.tokens, ())
                self._early += tokens
                self._observed.said_tokens(tokens)
            else:
                expected = [node.token for node in self._tree.main_line()]
                tokens = self._follower.follow(delta.text, delta.tokens, expected)
                self._advance(self._lookahead, tokens)
        except Exception:
            self._deaf = True
            log.exception("the answer could not be followed any more")

    def _heard_pass(self) -> None:
        now_s = asyncio.get_running_loop().time()
        num_passes = self._seeder.passed(now_s)
        if num_passes != self._num_passes:
            self._num_passes = num_passes
            self._observed.passed(now_s)

    def _advance(self, lookahead: Lookahead, tokens: Sequence[int]) -> None:
        advance = lookahead.advance(tokens)
        self._counts.saw(advance)
        self._observed.said_tokens(tokens, advance.origins)
        self._weigh(advance, len(tokens))

    def _weigh(self, advance: Advance, num_tokens: int) -> None:
        """Learn what this answer says of drafts, and end them where they do not pay."""
        worth = self._worth
        self._num_followed += num_tokens
        for node, token in advance.decided:
            worth.decided(hit=node.token == token)
        if self._trial is Trial.SEED:
            if self._enough is not None:  # it is seeded still
                worth.said(num_tokens)
            if not worth.seeds:
                self._has_enough()
        elif worth.seeds or self._num_followed >= SHADOW_TOKENS:
            self._has_enough()
