"""What the answers of a route have taught. It outlives the loss of a target, and our restarts."""

import time
from pathlib import Path

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.horizon import DraftPace, PassPace
from specproxy.core.observed import Observed
from specproxy.core.stats import DraftCounts
from specproxy.state import RouteState


class Learned:
    """Of all answers so far.

    Args:
        route: its name.
        folder: where what is learned is kept; None keeps nothing.

    Attributes:
        state: the file of it.
    """

    def __init__(self, route: str, folder: Path | None) -> None:
        self.counts = DraftCounts()
        self.acceptance = AcceptanceModel()
        self.draft_pace = DraftPace()
        self.pass_pace = PassPace()
        self.observed = Observed(time.time() - time.monotonic())
        self.state = RouteState(folder, route, self.acceptance, self.observed)

    def __repr__(self) -> str:
        return f"<Learned {self.counts!r} {self.state!r}>"
