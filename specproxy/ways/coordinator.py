"""A coordinator: a target that verifies our draft trees in passes of its own."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.horizon import DraftPace, PassPace
from specproxy.core.observed import ObservedAnswer
from specproxy.core.tasks import spawn, stop
from specproxy.core.window import Window
from specproxy.draft.protocol import Drafter
from specproxy.errors import TargetError
from specproxy.target.channel import AnswerDrafts, DraftChannel
from specproxy.target.client import TargetClient
from specproxy.verified import VerifiedSession

WINDOW = Window(
    block_tokens=40,
    lookahead_tokens=40,
    near_tokens=3,
    sure_tokens=24,
    min_reach=0.05,
    branch_tokens=5,
    min_branch_reach=0.08,
    branch_share=1.0,
)
"""The next pass verifies whatever is drafted: no seed to wait for, no plain pass after a miss."""


class CoordinatorWay:
    """One life of a coordinator. Run `run` for as long as it lasts."""

    def __init__(
        self,
        client: TargetClient,
        drafter: Drafter,
        *,
        acceptance: AcceptanceModel,
        draft_pace: DraftPace,
        pass_pace: PassPace,
    ) -> None:
        self._channel = DraftChannel(client)
        self._drafter = drafter
        self._acceptance = acceptance
        self._draft_pace = draft_pace
        self._pass_pace = pass_pace

    def __repr__(self) -> str:
        return f"<CoordinatorWay {self._channel!r}>"

    @property
    def is_open(self) -> bool:
        """Whether drafts can be sent now."""
        return self._channel.is_open

    async def run(
        self, opened: Callable[[], None], closed: Callable[[str], None], *, rest_s: float
    ) -> None:
        """Keep the draft channel open until cancelled.

        Args:
            opened, closed: called whenever it is, the latter with the reason.
            rest_s: before it is opened again.
        """
        while True:
            holding = spawn(self._channel.run(), name="draft channel")
            try:
                await self._channel.opened(holding)
                if self._channel.is_open:
                    opened()
                await holding
                reason = "the coordinator closed the draft channel"
            except TargetError as error:
                reason = str(error)
            finally:
                await stop(holding)
            closed(reason)
            await asyncio.sleep(rest_s)

    @contextmanager
    def answer(
        self, observed: ObservedAnswer
    ) -> Iterator[tuple[VerifiedSession, AnswerDrafts] | None]:
        """Speculation for one answer, and its end of the channel; None while that is down."""
        session = VerifiedSession(
            self._drafter, WINDOW, self._acceptance, self._draft_pace, self._pass_pace, observed
        )
        with self._channel.answer(session.hear) as drafts:
            yield None if drafts is None else (session, drafts)
