"""One answer in fan-out rounds: draft ahead, ask for all drafted prefixes at once, keep what fits.

Implements `coordinator.generation.Generation`: the target says tokens, as our own engine would;
what becomes of them (text, stop strings, shapes) is the same.

Invariant: every token emitted is the target's own, drawn after exactly what was emitted before it.
A wrong or missing draft costs time only.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import structlog

from specproxy.coordinator.generation import Emitted, Finish, Step
from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.drafts import GrownNode
from specproxy.core.fanout import AMORTISED_ROUNDS, HeldPrefixes, RoundCost, choose_block, kept
from specproxy.core.horizon import DraftPace
from specproxy.core.observed import ObservedAnswer
from specproxy.core.stats import DraftCounts
from specproxy.core.tree import DraftTree
from specproxy.core.window import Window
from specproxy.draft.protocol import Drafter
from specproxy.errors import SpecproxyError
from specproxy.lookahead import Lookahead
from specproxy.target.client import TargetClient
from specproxy.target.fanout import Json, Round, ask

log = structlog.get_logger(__name__)

PLAIN_TOKENS = 8
"""Tokens per request once nothing is drafted any more."""
TOKEN_S = 0.02
"""The draft's time per token while it is not known."""
LONGEST_WAIT = 2.0
"""How long a round waits for drafts, by the time that they should take."""


class FannedSession:
    """Speculation for one answer, and its tokens.

    Args:
        drafter: drafts; its vocabulary is the target's.
        prompt: the answer's prompt.
        sampling: parameters that the target samples each token with.
        max_tokens: of the answer; None: as many as the context holds, or the target goes on for.
        num_context: tokens that the target's context holds; the prompt leaves room for some.
        num_slots: slots of the target that it may use at once.
        most_drafted: how many drafted tokens a round may carry after a context of that length.
        acceptance, draft_pace, cost: what the route's answers have taught so far; they learn from
            this one too.
        observed: told what becomes of the answer.

    Attributes:
        counts: what became of the drafted tokens so far.
        first_token_s: from the start to the first token; None before it.
        decode_s: time of all rounds after the first, waiting for drafts included.
        settings: the sampling parameters as the target understood them; known once begun.
    """

    def __init__(
        self,
        client: TargetClient,
        drafter: Drafter,
        prompt: Sequence[int],
        sampling: Mapping[str, Any],
        *,
        max_tokens: int | None,
        num_context: int,
        num_slots: int,
        most_drafted: Callable[[int], int],
        window: Window,
        acceptance: AcceptanceModel,
        draft_pace: DraftPace,
        cost: RoundCost,
        observed: ObservedAnswer,
    ) -> None:
        self.counts = DraftCounts()
        self.num_cached = 0
        self.prompt_s = 0.0
        self.first_token_s: float | None = None
        self.decode_s = 0.0
        self.settings: Json = {}
        self._client = client
        self._drafter = drafter
        self._sampling = sampling
        self._num_room = num_context - len(prompt)
        self._max_tokens = -1 if max_tokens is None else max_tokens
        self._most_drafted = most_drafted
        self._acceptance = acceptance
        self._draft_pace = draft_pace
        self._cost = cost
        self._observed = observed
        self._held = HeldPrefixes(num_slots)
        self._tree = DraftTree(prompt)
        self._drafts = True
        self._changed = asyncio.Event()
        self._lookahead = Lookahead(
            drafter,
            self._tree,
            window,
            acceptance,
            self._grew,
            self._was_drafted,
            rested=self._changed.set,
        )
        self._first: Step | None = None
        self._ends: set[int] = set()
        self._finished = False

    def __repr__(self) -> str:
        return f"<FannedSession {self._tree!r} {self._held!r}>"

    async def speculate(self) -> None:
        """Draft ahead of the target until cancelled; returns early if that fails."""
        try:
            await self._lookahead.run()
        except* SpecproxyError as group:
            log.warning("speculation stopped for this answer", reason=str(group.exceptions[0]))
        except* Exception:
            log.exception("speculation failed for this answer")
        finally:
            self._drafts = False
            self._changed.set()

    def _grew(self, num_tokens: int) -> None:
        self.counts.num_drafted += num_tokens
        self._changed.set()

    def _was_drafted(self, num_tokens: int, duration_s: float) -> None:
        self._draft_pace.drafted(num_tokens, duration_s)
        self._observed.drafted(num_tokens, duration_s)

    # -- the answer's tokens ----------------------------------------------------------------

    async def begin(self) -> None:
        """Have the target read the prompt and say the first token.

        Raises:
            TargetError: it refused. Nothing has been emitted.
        """
        prompt = self._tree.tokens
        found = await ask(self._client, [prompt], self._sampling)
        first = found.said[0]
        self.settings = first.settings
        if self.settings.get("n_keep", 0) < 0:  # keeps the prompt, but later ones are longer
            self._sampling = {**self._sampling, "n_keep": len(prompt)}
        self.num_cached = first.num_cached
        self.prompt_s = self.first_token_s = found.duration_s
        self._held.placed(len(prompt), 0, 0)
        self._first = self._step(found, list(first.tokens[:1]), ended=first.ended, num_drafted=0)

    def is_end(self, token: int) -> bool:
        """Whether the target has said that `token` ends a generation."""
        return token in self._ends

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        """
        Raises:
            TargetError: the target failed; the answer cannot be completed.
        """
        if self._first is not None:
            step, self._first = self._first, None
            return step
        if self._finished:
            raise StopAsyncIteration
        if self._num_room <= 1:  # the target ends here, or makes room (`--context-shift`)
            return await self._alone(self._max_tokens)
        clock = asyncio.get_running_loop().time
        began_s = clock()
        drafted = await self._drafted()
        waited_s = clock() - began_s
        if not drafted and not self._drafts:
            return await self._alone(min(PLAIN_TOKENS, self._num_left))
        context = list(self._tree.tokens)
        prompts = [[*context, *drafted[:count]] for count in range(len(drafted) + 1)]
        found = await ask(self._client, prompts, self._sampling)
        said = [one.tokens[0] for one in found.said]
        num_kept = kept(drafted, said)
        self._cost.took(found.num_rows, found.duration_s)
        self._held.placed(len(context), len(drafted), num_kept)
        tokens = [*drafted[:num_kept], said[num_kept]]
        ends = [count for count in range(num_kept + 1) if found.said[count].ended]
        if ends:
            tokens = tokens[: ends[0] + 1]
        return self._step(
            found, tokens, ended=bool(ends), num_drafted=len(drafted), waited_s=waited_s
        )

    async def _drafted(self) -> list[int]:
        """The tokens that the next round carries, waited for as long as that pays."""
        deadline_s: float | None = None
        while True:
            self._changed.clear()
            line = self._tree.main_line()
            most = self._most()
            is_end = self._drafter.vocabulary.is_end(self._tree.tip.token)
            if is_end or self._lookahead.rests or not self._drafts:
                most = min(most, len(line))
            acceptances = [self._acceptance.accept(node) for node in line[:most]]
            acceptances += [self._acceptance.average] * (most - len(acceptances))
            num_wanted = choose_block(
                acceptances, len(line), self._draft_pace.token_s, self._round_s
            )
            if num_wanted <= len(line):
                return [node.token for node in line[:num_wanted]]
            if deadline_s is None:
                missing_s = (num_wanted - len(line)) * (self._draft_pace.token_s or TOKEN_S)
                deadline_s = asyncio.get_running_loop().time() + LONGEST_WAIT * missing_s
            try:
                async with asyncio.timeout_at(deadline_s):
                    await self._changed.wait()
            except TimeoutError:  # the draft is slow
                return [node.token for node in line[:most]]

    @property
    def _num_left(self) -> int:
        """Tokens that rounds may still bring; the one that fills the context is not theirs."""
        room = self._num_room - 1
        return room if self._max_tokens < 0 else min(room, self._max_tokens)

    def _most(self) -> int:
        """Drafted tokens that the next round may carry at most."""
        num_context = len(self._tree.tokens)
        num_slots = self._held.num_warm + self._cost.affordable(num_context)
        num_slots = min(num_slots, self._held.num_slots)
        return max(0, min(self._most_drafted(num_context), self._num_left - 1, num_slots - 1))

    def _round_s(self, num_drafted: int) -> float | None:
        num_context, held, cost = len(self._tree.tokens), self._held, self._cost
        seconds = cost.seconds(held.rows(num_context, num_drafted))
        surcharge_s = cost.surcharge_s(held.evaluated(num_context, num_drafted))
        return None if seconds is None else seconds + surcharge_s / AMORTISED_ROUNDS

    async def _alone(self, num_tokens: int) -> Step:
        """Without a draft: several tokens one after the other; -1: as many as the target gives."""
        found = await ask(self._client, [self._tree.tokens], self._sampling, num_tokens=num_tokens)
        said = found.said[0]
        return self._step(found, list(said.tokens), ended=said.ended, num_drafted=0)

    def _step(
        self,
        found: Round,
        tokens: list[int],
        *,
        ended: bool,
        num_drafted: int,
        waited_s: float = 0.0,
    ) -> Step:
        """Take what the target said."""
        self._num_room -= len(tokens)
        self._max_tokens -= len(tokens) if self._max_tokens > 0 else 0
        is_full = self._num_room <= 0
        finish: Finish | None = None
        if ended:
            finish = "stop"
            self._ends.add(tokens[-1])
        elif is_full or self._max_tokens == 0:
            finish = "length"
        num_accepted = min(len(tokens), num_drafted and len(tokens) - 1)
        advance = self._lookahead.advance(tokens)
        self._observed.passed(
            asyncio.get_running_loop().time(),
            duration_s=found.duration_s,
            waited_s=waited_s,
            plain=not num_drafted,
        )
        self._observed.said_tokens(tokens, advance.origins)
        self.counts.saw(advance)
        self.counts.num_seeded += num_drafted
        self.counts.num_proposed += num_drafted
        self.counts.num_accepted += num_accepted
        self.counts.num_generated += len(tokens)
        if self.counts.num_generated > len(tokens):
            self.decode_s += found.duration_s + waited_s
        if finish is not None:
            self._finished = True
            self.counts.num_answers = 1
        return Step(
            tuple(map(Emitted, tokens)),
            num_verified=num_drafted,
            num_accepted=num_accepted,
            num_rows=found.num_rows,
            duration_s=found.duration_s,
            waited_s=waited_s,
            finish=finish,
            truncated=found.said[0].truncated if is_full else None,
        )

    def grow(self, nodes: Sequence[GrownNode], go_at: int) -> None:
        """Nobody else drafts for this answer."""

    def close(self) -> None:
        """No more rounds. Idempotent."""
        self._finished = True
