"""Fan-out: any llama-server with spare slots, and no flags of its own for speculation.

Invariant: an answer gets its share of the slots and of the context, so that rounds of several
answers, and what passes through beside them, need not wait for each other.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

import structlog

from specproxy.admission import single_prompt
from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.fanout import RoundCost
from specproxy.core.horizon import DraftPace
from specproxy.core.observed import ObservedAnswer
from specproxy.core.window import Window
from specproxy.draft.protocol import Drafter
from specproxy.fanned import FannedSession
from specproxy.settings import FanoutSettings
from specproxy.target.batching import measure_batching
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts
from specproxy.target.tokens import TargetTokens
from specproxy.target.trials import try_completion
from specproxy.target.warmup import Warmer
from specproxy.ways.chats import chat_specials
from specproxy.ways.plain import PlainRequest, read_plain

log = structlog.get_logger(__name__)

MIN_SLOTS = 3
"""Below that a round is hardly better than none."""
CONTEXT_SHARE = 0.75
"""Of the KV cells, for rounds; the rest is slack, for the server fails all answers when it runs
out."""
FEW_SLOTS = (
    f"fan-out needs {MIN_SLOTS} slots at least: start the target with"
    " -np 10 --kv-unified --cache-ram 0"
)
SPLIT_BATCHES = (
    "prompts of different lengths do not share a pass of the target:"
    " start it with --kv-unified --cache-ram 0"
)
OWN_ANSWERS = (
    "the target ends answers with text of its own, or by its own stop strings:"
    " start it without --special and -r"
)


class FanoutWay:
    """One life of a target with slots to spare. Run `run` for as long as it lasts.

    Attributes:
        chat_specials: literals of control tokens that the target shows in chats' messages; None: it
            may read its answers in ways that are not known here, chats pass through.
    """

    def __init__(
        self,
        client: TargetClient,
        drafter: Drafter,
        settings: FanoutSettings,
        facts: TargetFacts,
        *,
        defaults: Mapping[str, Any],
        chat_specials: frozenset[str] | None,
        acceptance: AcceptanceModel,
        draft_pace: DraftPace,
        rng: random.Random,
    ) -> None:
        self.chat_specials = chat_specials
        self.facts = facts
        self._client = client
        self._drafter = drafter
        self._settings = settings
        self._defaults = defaults
        self._acceptance = acceptance
        self._draft_pace = draft_pace
        self._rng = rng
        self._cost = RoundCost()
        self._tokens = TargetTokens(client)
        self._num_fanned = 0
        self._num_plain = 0
        longest = settings.block_tokens
        self._window = Window(
            block_tokens=4,
            lookahead_tokens=2 * longest,
            near_tokens=longest,
            sure_tokens=longest,  # so a round never waits for what nobody drafts
            branch_tokens=min(longest, 5),
        )

    @classmethod
    async def found(
        cls,
        client: TargetClient,
        drafter: Drafter,
        settings: FanoutSettings,
        facts: TargetFacts,
        *,
        acceptance: AcceptanceModel,
        draft_pace: DraftPace,
        rng: random.Random,
    ) -> Self | str:
        """The way, or why this target does not allow it.

        Raises:
            TargetError: it did not answer.
        """
        if facts.num_slots < MIN_SLOTS:
            return FEW_SLOTS
        batching = await measure_batching(
            client, num_slots=facts.num_slots, num_vocab=facts.num_vocab, rng=rng
        )
        if not batching.shares:
            return SPLIT_BATCHES
        shown = await try_completion(client)
        if shown is None or shown.get("stop"):
            return OWN_ANSWERS
        props = await client.json("GET", "/props")
        defaults = props["default_generation_settings"].get("params", {})
        template = str(props.get("chat_template", ""))
        return cls(
            client,
            drafter,
            settings,
            facts,
            defaults={**defaults, "n_predict": shown.get("n_predict")},
            chat_specials=await chat_specials(client, template, drafter.vocabulary),
            acceptance=acceptance,
            draft_pace=draft_pace,
            rng=rng,
        )

    def __repr__(self) -> str:
        return f"<FanoutWay fanned={self._num_fanned} plain={self._num_plain} {self._cost!r}>"

    @property
    def drafter(self) -> Drafter:
        return self._drafter

    async def run(self, warmed: Callable[[], None], idle: Callable[[], Awaitable[object]]) -> None:
        """Warm the numbers of rows that rounds will have, where the link makes that worth while.

        Args:
            warmed: called once there is nothing left to warm.
            idle: returns when no answer is running.
        """
        facts, settings = self.facts, self._settings
        warmer = Warmer(
            self._client, seed_slot=facts.seed_slot, num_vocab=facts.num_vocab, rng=self._rng
        )
        # the rows of a full round, and as many to fill a slot
        longest = 2 * (settings.block_tokens + 1) ** 2
        try:
            if await warmer.warm_up(settings.warm, longest, idle):
                self._cost.warmed(range(longest))
        finally:
            warmed()

    def read(self, kind: str, body: Mapping[str, Any]) -> PlainRequest | None:
        """The request, if rounds can carry it; None: leave it to the target."""
        if kind == "chat" and self.chat_specials is None:
            return None
        return read_plain(kind, body, self._defaults)

    async def prompt(
        self, request: PlainRequest, chat: Mapping[str, Any] | None
    ) -> tuple[str, list[int]]:
        """The prompt's text, of chats alone, and its ids, as the target itself reads it.

        Raises:
            TargetError: it did not say.
        """
        if chat is not None:
            text = await self._tokens.chat_text(chat)
            return text, await self._tokens.tokenize(text, add_special=True)
        prompt = single_prompt(request.body.get("prompt"))
        if isinstance(prompt, list):
            return "", prompt
        return "", await self._tokens.tokenize(prompt or "", add_special=True)

    @contextmanager
    def beside(self, num_slots: int) -> Iterator[None]:
        """An answer that the target gives alone takes slots meanwhile."""
        self._num_plain += num_slots
        try:
            yield
        finally:
            self._num_plain -= num_slots

    @asynccontextmanager
    async def answer(
        self, request: PlainRequest, prompt: list[int], observed: ObservedAnswer
    ) -> AsyncIterator[FannedSession | None]:
        """Speculation for one answer; None where slots or room are too few for rounds."""
        num_slots = min(self._settings.block_tokens + 1, self._slots_for(self._num_fanned + 1))
        room = self._most_drafted(len(prompt), self._num_fanned + 1)
        if num_slots < MIN_SLOTS or room < MIN_SLOTS - 1 or not prompt:
            yield None
            return
        self._num_fanned += 1
        try:
            yield FannedSession(
                self._client,
                self._drafter,
                prompt,
                request.sampling,
                max_tokens=request.max_tokens,
                num_context=self.facts.num_context,
                num_slots=num_slots,
                most_drafted=self._most_now,
                window=self._window,
                acceptance=self._acceptance,
                draft_pace=self._draft_pace,
                cost=self._cost,
                observed=observed,
            )
        finally:
            self._num_fanned -= 1

    def _slots_for(self, num_fanned: int) -> int:
        return (self.facts.num_slots - self._num_plain) // max(1, num_fanned)

    def _most_now(self, num_tokens: int) -> int:
        """Drafted tokens that a round may carry now."""
        num_slots = max(1, self._slots_for(self._num_fanned))
        return min(self._most_drafted(num_tokens, self._num_fanned), num_slots - 1)

    def _most_drafted(self, num_tokens: int, num_fanned: int) -> int:
        """By the KV cells: each slot of a round holds the whole context."""
        room = int(CONTEXT_SHARE * self.facts.num_context) // max(1, num_fanned)
        longest = self._settings.block_tokens
        return max(0, min(longest, room // (num_tokens + longest) - 1))
