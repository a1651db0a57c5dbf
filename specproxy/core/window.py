"""What to draft next: further along the main line, or a branch beside it.

A seed sent during one pass is read in the next and serves the one after, so the draft must stay
two passes ahead; what lies beyond a miss is void. Both follow from one number: the probability
that the target gets to a node at all (its reach), which is the product of the acceptances on
the way. The main line is drafted while its tip can still be reached; then the places
where the draft was torn get their other choices, the likeliest first. Source of the idea:
best-first draft trees, EAGLE-2 (arXiv 2406.16858); here under the delay of seeding.
"""

from dataclasses import dataclass

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.tree import DraftTree, Node


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch to draft: `token` in the place of `parent`'s first child."""

    parent: Node
    token: int
    probability: float


@dataclass(frozen=True, slots=True)
class Window:
    """The speculative window.

    Attributes:
        block_tokens: drafted per call on the main line.
        lookahead_tokens: drafted ahead of the target on the main line at most.
        near_tokens: drafted ahead before any branch.
        sure_tokens: drafted ahead in any case: about what two passes can use.
        min_reach: beyond that the main line ends where its tip is less likely to be reached.
        branch_tokens: length of a branch, its first token included; 0: no branches.
        min_branch_reach: a branch is drafted if its first token is at least this likely.
        branch_share: while the main line can still be extended, a branch must be at least this
            likely against the line's tip: drafted together, both take longer.
    """

    block_tokens: int = 4
    lookahead_tokens: int = 40
    near_tokens: int = 8
    sure_tokens: int = 20
    min_reach: float = 0.2
    branch_tokens: int = 6
    min_branch_reach: float = 0.06
    branch_share: float = 0.0

    def next_block(self, tree: DraftTree, acceptance: AcceptanceModel) -> int:
        """Tokens to draft next on the main line; 0: none before the target moves."""
        line = tree.main_line()
        if len(line) >= self.sure_tokens and acceptance.reach(line) < self.min_reach:
            return 0
        return max(0, min(self.block_tokens, self.lookahead_tokens - len(line)))

    def next_branch(self, tree: DraftTree, acceptance: AcceptanceModel) -> Branch | None:
        """The likeliest branch that is not drafted yet; None: none is worth it."""
        line = tree.main_line()
        if not self.branch_tokens or len(line) < self.near_tokens:
            return None
        best: Branch | None = None
        best_reach = self.min_branch_reach
        if self.branch_share and self.next_block(tree, acceptance):
            best_reach = max(best_reach, self.branch_share * acceptance.reach(line))
        reach = 1.0
        parent = tree.root
        for node in line:
            for rank, (token, probability) in enumerate(node.alternatives):
                branch_reach = reach * acceptance.alternative(node, rank)
                if branch_reach >= best_reach and parent.child(token) is None:
                    best, best_reach = Branch(parent, token, probability), branch_reach
            reach *= acceptance.accept(node)
            parent = node
        return best
