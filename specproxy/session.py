"""One answer: follow the target, draft ahead of it, have the drafts seeded.

The answer itself is relayed elsewhere, byte for byte; a session only listens. Whatever goes
wrong in here ends speculation for this answer and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol

import structlog

from specproxy.core.acceptance import AcceptanceModel
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
        acceptance: what the route's answers have taught so far; learns from this one too.
    """

    def __init__(
        self, drafter: Drafter, seeder: Seeder, window: Window, acceptance: AcceptanceModel
    ) -> None:
        self._counts = DraftCounts()
        self._drafter = drafter
        self._seeder = seeder
        self._window = window
        self._acceptance = acceptance
        self._follower = Follower(drafter.vocabulary)
        self._early: list[int] = []
        self._tree: DraftTree | None = None
        self._sequences: list[DraftSequence] = []
        self._changed = asyncio.Event()
        self._deaf = False

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
            with self._seeder.serving(tree), self._opened() as sequence, self._opened() as second:
                async with asyncio.TaskGroup() as lanes:
                    lanes.create_task(self._draft_line(tree, sequence), name="draft line")
                    lanes.create_task(self._draft_branches(tree, second), name="draft branches")
        except* SpecproxyError as group:
            log.warning("speculation stopped for this answer", reason=str(group.exceptions[0]))
        except* Exception:
            log.exception("speculation failed for this answer")

    async def _draft_line(self, tree: DraftTree, sequence: DraftSequence) -> None:
        """Extend the main line whenever the window asks for it."""
        while True:
            changed = self._changed
            tip = tree.tip
            num_tokens = self._window.next_block(tree, self._acceptance)
            drafted = []
            if num_tokens and not self._drafter.vocabulary.is_end(tip.token):
                drafted = await sequence.draft(tree.context(tip), num_tokens)
                self._grew(tree.extend(tip, drafted))
            if not drafted:
                await changed.wait()

    async def _draft_branches(self, tree: DraftTree, sequence: DraftSequence) -> None:
        """Draft the target's likeliest ways off the main line."""
        while True:
            changed = self._changed
            branch = self._window.next_branch(tree, self._acceptance)
            if branch is None:
                await changed.wait()
                continue
            node = tree.branch(branch.parent, branch.token, branch.probability)
            if not self._drafter.vocabulary.is_end(node.token):
                num_tokens = self._window.branch_tokens - 1
                drafted = await sequence.draft(tree.context(node), num_tokens)
                self._grew(tree.extend(node, drafted))

    @contextmanager
    def _opened(self) -> Iterator[DraftSequence]:
        with closing(self._drafter.open()) as sequence:
            self._sequences.append(sequence)
            yield sequence

    def _grew(self, num_tokens: int) -> None:
        """The tree has `num_tokens` more; with none, whoever waits goes on waiting."""
        if num_tokens:
            self._counts.num_drafted += num_tokens
            self._seeder.wake()
            self._moved()

    def _moved(self) -> None:
        """Wake every lane that waits for a change since it last looked."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def hear(self, delta: Delta) -> None:
        """The target said something more. Never raises: the answer is being relayed."""
        if self._deaf:
            return
        try:
            self._seeder.passed()
            if self._tree is None:
                self._early += self._follower.follow(delta.text, delta.tokens, ())
            else:
                expected = [node.token for node in self._tree.main_line()]
                tokens = self._follower.follow(delta.text, delta.tokens, expected)
                self._advance(self._tree, tokens)
        except Exception:
            self._deaf = True
            log.exception("the answer could not be followed any more")

    def _advance(self, tree: DraftTree, tokens: Sequence[int]) -> None:
        advance = tree.advance(tokens)
        self._counts.saw(advance)
        for node, token in advance.decided:
            self._acceptance.learn(node, token)
        if advance.num_missed or advance.num_branched:
            for sequence in self._sequences:
                sequence.cut()  # what it drafts is void now
        self._moved()
