"""What a route does with generation requests."""

from enum import Enum


class Mode(Enum):
    """What a route does with generation requests."""

    STARTING = "starting"
    PASSTHROUGH = "passthrough"
    SEEDING = "seeding"
    FANOUT = "fanout"
    COORDINATOR = "coordinator"
