"""One answer of a target that verifies our tree: draft ahead of it, push every node at once.

The answer itself is relayed elsewhere; what the target said is heard on the draft channel, as
exact token ids. Whatever goes wrong in here ends speculation for this answer and nothing else.
"""

import asyncio
import itertools

import structlog

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.drafts import Ended, GrownNode, Passed, Prompt
from specproxy.core.horizon import DraftPace, PassPace, nodes_to_await
from specproxy.core.observed import ObservedAnswer
from specproxy.core.origins import Origin
from specproxy.core.stats import DraftCounts
from specproxy.core.tree import DraftTree, Node
from specproxy.core.window import Window
from specproxy.draft.protocol import Drafter
from specproxy.errors import SpecproxyError
from specproxy.lookahead import Lookahead
from specproxy.target.channel import AnswerDrafts

log = structlog.get_logger(__name__)


class VerifiedSession:
    """Speculation for one answer of a coordinator.

    Args:
        drafter: drafts; its vocabulary is the target's.
        window: how far ahead to draft.
        acceptance, draft_pace, pass_pace: what the route's answers have taught so far; they
            learn from this one too.
        observed: told what becomes of the answer.

    Attributes:
        counts: what became of the drafted tokens so far.
        first_token_s: from the session's start to the target's first token; None before it.
    """

    def __init__(
        self,
        drafter: Drafter,
        window: Window,
        acceptance: AcceptanceModel,
        draft_pace: DraftPace,
        pass_pace: PassPace,
        observed: ObservedAnswer,
    ) -> None:
        self.counts = DraftCounts()
        self.first_token_s: float | None = None
        self._began_s = asyncio.get_running_loop().time()
        self._drafter = drafter
        self._window = window
        self._acceptance = acceptance
        self._draft_pace = draft_pace
        self._pass_pace = pass_pace
        self._observed = observed
        self._prompt: asyncio.Future[Prompt] = asyncio.get_running_loop().create_future()
        self._lookahead: Lookahead | None = None
        self._pusher: _Pusher | None = None

    def __repr__(self) -> str:
        return f"<VerifiedSession {self._lookahead!r}>"

    def hear(self, message: Prompt | Passed | Ended) -> None:
        """What the coordinator says of the answer."""
        match message:
            case Prompt() if not self._prompt.done():
                self._prompt.set_result(message)
                self._observed.reads(message.tokens)
            case Passed():
                self._passed(message)
            case Ended():
                self.counts.num_answers = 1

    def _passed(self, message: Passed) -> None:
        now_s = asyncio.get_running_loop().time()
        if self.first_token_s is None:
            self.first_token_s = now_s - self._began_s
        self.counts.num_proposed += message.num_verified
        self.counts.num_accepted += message.num_accepted
        self.counts.num_generated += len(message.tokens)
        self._pass_pace.passed(message.duration_s)
        origins: tuple[Origin, ...] = ()
        if self._lookahead is not None and self._pusher is not None:
            advance = self._lookahead.advance(message.tokens)
            self.counts.saw(advance)
            self._pusher.push(self._nodes_to_await(), moved=True)
            origins = advance.origins
        self._observed.passed(
            now_s,
            duration_s=message.duration_s,
            waited_s=message.waited_s,
            plain=message.num_rows == 1,
        )
        self._observed.said_tokens(message.tokens, origins)

    async def speculate(self, drafts: AnswerDrafts) -> None:
        """Draft and push until cancelled; returns early if that fails."""
        try:
            tree = DraftTree((await self._prompt).tokens)
            self._pusher = _Pusher(self._drafter, tree, drafts, self._acceptance)
            self._lookahead = Lookahead(
                self._drafter,
                tree,
                self._window,
                self._acceptance,
                self._grew,
                self._drafted,
                eager=True,
            )
            self._pusher.push(self._nodes_to_await(), moved=True)
            await self._lookahead.run()
        except* SpecproxyError as group:
            log.warning("speculation stopped for this answer", reason=str(group.exceptions[0]))
        except* Exception:
            log.exception("speculation failed for this answer")
        finally:
            self._lookahead = None
            drafts.grow([], 0)  # whatever the target still waits for will not come

    def _drafted(self, num_tokens: int, duration_s: float) -> None:
        self._draft_pace.drafted(num_tokens, duration_s)
        self._observed.drafted(num_tokens, duration_s)

    def _grew(self, num_tokens: int) -> None:
        self.counts.num_drafted += num_tokens
        if self._pusher is not None:
            self.counts.num_seeded += self._pusher.push(self._nodes_to_await())

    def _nodes_to_await(self) -> int:
        return nodes_to_await(
            self._draft_pace.token_s,
            self._pass_pace.pass_s,
            self._acceptance.average,
            self._window.sure_tokens,
        )


class _Pusher:
    """Sends what the tree has that the target has not."""

    def __init__(
        self, drafter: Drafter, tree: DraftTree, drafts: AnswerDrafts, acceptance: AcceptanceModel
    ) -> None:
        self._drafter = drafter
        self._tree = tree
        self._drafts = drafts
        self._acceptance = acceptance
        self._numbers = itertools.count()
        self._sent: dict[Node, int] = {}

    def push(self, go_at: int, *, moved: bool = False) -> int:
        """Send new nodes; returns how many.

        Args:
            go_at: nodes the next pass shall wait for.
            moved: the target has moved; it wants to know `go_at` even without nodes.
        """
        nodes = [self._grown(node) for node in self._tree.unsent()]
        if nodes or moved:
            # a line that ends with the answer will not grow any more
            ends = self._drafter.vocabulary.is_end(self._tree.tip.token)
            self._drafts.grow(nodes, 0 if ends else go_at)
        return len(nodes)

    def _grown(self, node: Node) -> GrownNode:
        self._sent[node] = number = next(self._numbers)
        parent = node.parent
        above = None if parent is None or parent is self._tree.root else self._sent[parent]
        return GrownNode(number, above, node.position, node.token, self._acceptance.of(node))
