"""What the routes answer from: the loaded model, and what lives as long as the application.

Invariant: a route gets the model through `Service.ready`, so that none answers after its engine is
gone.
"""

import secrets
from dataclasses import dataclass, field

from aiohttp import web

from specproxy.coordinator.channel import Channels
from specproxy.coordinator.http.metrics import Counts
from specproxy.coordinator.served import ServedModel
from specproxy.errors import CoordinatorError


@dataclass(eq=False)
class Service:
    """One application's state.

    Attributes:
        life: differs from one process to the next: `media_marker` in `/props`.
    """

    model: ServedModel
    life: str = field(default_factory=lambda: f"<__media_{secrets.token_hex(16)}__>")
    counts: Counts = field(default_factory=Counts)
    channels: Channels = field(default_factory=Channels)

    def ready(self) -> ServedModel:
        """The model.

        Raises:
            CoordinatorError: its engine is gone.
        """
        if not self.model.engine.alive:
            raise CoordinatorError(
                "The coordinator's engine is gone.",
                remedy="It is started again where it is supervised; look into its log.",
            )
        return self.model


SERVICE = web.AppKey("service", Service)
