"""What one pass over the pool costs on its links: round trips and bytes. Pure.

Each worker adds one round trip to a pass. Hidden states (4 bytes for each of the model's width)
go to a worker and come back; where the output layer is the last worker's, the logits (4 bytes for
each token of the vocabulary) come back instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from specproxy.pool.poolfile import LinkSection

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class PassCost:
    """One pass of some rows.

    Attributes:
        num_rows: tokens evaluated; all of their logits are wanted.
        num_round_trips: one after the other.
        hidden_bytes, logit_bytes: over all links.
        link_ms: waiting for the links alone.
    """

    num_rows: int
    num_round_trips: int
    hidden_bytes: int
    logit_bytes: int
    link_ms: float


def pass_cost(
    links: Sequence[LinkSection],
    *,
    num_rows: int,
    embedding_length: int,
    num_vocab: int,
    logits_cross: bool,
) -> PassCost:
    """The cost over `links`, those of the workers that hold layers, in their order."""
    hidden = num_rows * embedding_length * _FLOAT_BYTES
    logits = num_rows * num_vocab * _FLOAT_BYTES if logits_cross and links else 0
    total_ms, hidden_bytes = 0.0, 0
    for index, link in enumerate(links):
        back = 0 if logits and index == len(links) - 1 else hidden
        hidden_bytes += hidden + back
        crossing = hidden + (back or logits)
        total_ms += link.rtt_ms + crossing * 8 / link.mbit_s / 1000
    return PassCost(num_rows, len(links), hidden_bytes, logits, total_ms)
