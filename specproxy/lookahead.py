"""Drafting ahead of the target: the main line, and branches off it, into one answer's tree.

Two lanes share the draft model. One extends the main line whenever the window asks for it; the
other drafts the target's likeliest ways off it. What the target says ends at once what it made
void.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.drafted import DraftToken
from specproxy.core.tree import Advance, DraftTree, Node
from specproxy.core.window import Window
from specproxy.draft.protocol import Drafter, DraftSequence


class Lookahead:
    """Drafts into `tree` while `run` runs.

    Args:
        tree: of one answer; nobody else extends or advances it.
        acceptance: what the route's answers have taught so far; learns from this one too.
        grew: called with the number of nodes that are new in the tree.
        tell_drafted: called with the number of tokens of a draft call, and its time in seconds.
        eager: tell of a branch's first token before more of it is drafted.
        rested: called when the main line has come to rest.

    Attributes:
        rests: the main line grows no more before the target moves: the window wants no more of
            it, or the draft has nothing to say.
    """

    def __init__(
        self,
        drafter: Drafter,
        tree: DraftTree,
        window: Window,
        acceptance: AcceptanceModel,
        grew: Callable[[int], None],
        tell_drafted: Callable[[int, float], None],
        *,
        eager: bool = False,
        rested: Callable[[], None] = lambda: None,
    ) -> None:
        self.rests = False
        self._drafter = drafter
        self._tree = tree
        self._window = window
        self._acceptance = acceptance
        self._tell_grown = grew
        self._tell_drafted = tell_drafted
        self._eager = eager
        self._tell_rested = rested
        self._sequences: list[DraftSequence] = []
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Lookahead {self._tree!r}>"

    async def run(self) -> None:
        """Draft until cancelled. May be run again.

        Raises:
            DraftUnavailable: the drafter is gone (in an ExceptionGroup).
        """
        with self._opened() as line, self._opened() as branches:
            async with asyncio.TaskGroup() as lanes:
                lanes.create_task(self._draft_line(line), name="draft line")
                lanes.create_task(self._draft_branches(branches), name="draft branches")

    def advance(self, tokens: Sequence[int]) -> Advance:
        """The target said `tokens`."""
        advance = self._tree.advance(tokens)
        for node, token in advance.decided:
            self._acceptance.learn(node, token)
        if advance.num_missed or advance.num_branched:
            for sequence in self._sequences:
                sequence.cut()  # what it drafts is void now
        self._moved()
        return advance

    async def _draft_line(self, sequence: DraftSequence) -> None:
        """Extend the main line whenever the window asks for it."""
        tree = self._tree
        while True:
            changed = self._changed
            tip = tree.tip
            num_tokens = self._window.next_block(tree, self._acceptance)
            num_new = 0
            if num_tokens and not self._ends(tip):
                num_new = await self._draft(sequence, tip, num_tokens, windowed=True)
            if not num_new:
                if not changed.is_set():
                    self.rests = True
                    self._tell_rested()
                await changed.wait()

    async def _draft_branches(self, sequence: DraftSequence) -> None:
        """Draft the target's likeliest ways off the main line; of a draft that would have to read
        the whole context for each, take what it has said already: their first tokens."""
        tree = self._tree
        while True:
            changed = self._changed
            branch = self._window.next_branch(tree, self._acceptance)
            if branch is None:
                await changed.wait()
                continue
            node = tree.branch(branch.parent, branch.token, branch.probability)
            if self._eager:
                self._grew(1)
            if self._drafter.can_branch and not self._ends(node) and self._window.branch_tokens > 1:
                await self._draft(sequence, node, self._window.branch_tokens - 1)

    async def _draft(
        self, sequence: DraftSequence, start: Node, num_tokens: int, *, windowed: bool = False
    ) -> int:
        """Draft below `start`; returns how many tokens came, wanted or not by then.

        Args:
            windowed: end early where the window says so.
        """
        clock = asyncio.get_running_loop().time
        began_s = clock()
        drafted: list[DraftToken] = []

        def take(token: DraftToken) -> None:
            drafted.append(token)
            self._grew(self._tree.extend(start, drafted))
            if windowed and not self._window.next_block(self._tree, self._acceptance):
                sequence.cut()

        came = await sequence.draft(self._tree.context(start), num_tokens, on_token=take)
        self._tell_drafted(len(came), clock() - began_s)
        return len(came)

    def _ends(self, node: Node) -> bool:
        """Nothing comes after it."""
        return self._drafter.vocabulary.is_end(node.token)

    @contextmanager
    def _opened(self) -> Iterator[DraftSequence]:
        with closing(self._drafter.open()) as sequence:
            self._sequences.append(sequence)
            try:
                yield sequence
            finally:
                self._sequences.remove(sequence)

    def _grew(self, num_tokens: int) -> None:
        """The tree has `num_tokens` more; with none, whoever waits goes on waiting."""
        if num_tokens:
            self._tell_grown(num_tokens)
            self._moved()

    def _moved(self) -> None:
        """Wake every lane that waits for a change since it last looked."""
        self.rests = False
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
