"""What a running target says of itself, read once per life of its process."""

from dataclasses import dataclass
from typing import Any

from specproxy.errors import TargetError
from specproxy.target.client import TargetClient


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """A target as `/props` and `/health` describe it.

    Attributes:
        model: the name it gives its model.
        num_slots: all of its slots.
        num_context: tokens that all slots may hold together (one slot, if not unified).
        num_vocab: size of its vocabulary, padding included.
        build: its version.
        takes_drafts: it is a coordinator: it verifies the trees of a draft channel.
        life: differs from one process to the next where the server tells (`media_marker`).
    """

    model: str
    num_slots: int
    num_context: int
    num_vocab: int
    build: str
    life: str
    takes_drafts: bool = False

    @property
    def seed_slot(self) -> int:
        """The last slot: for seeds, and for no answer."""
        return self.num_slots - 1


async def read_facts(client: TargetClient) -> TargetFacts:
    """Ask the target.

    Raises:
        TargetUnreachable: no answer.
        TargetError: it is loading, or it is no llama-server.
    """
    await client.greet()
    props: dict[str, Any] = await client.json("GET", "/props")
    models: dict[str, Any] = await client.json("GET", "/v1/models")
    try:
        return TargetFacts(
            model=str(models["data"][0]["id"]),
            num_slots=int(props["total_slots"]),
            num_context=int(props["default_generation_settings"]["n_ctx"]),
            num_vocab=int(models["data"][0]["meta"]["n_vocab"]),
            build=str(props.get("build_info", "unknown")),
            life=str(props.get("media_marker", "")),
            takes_drafts=bool(props.get("specproxy", {}).get("drafts")),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise TargetError(
            f"{client.name} does not answer /props and /v1/models as llama-server does.",
            remedy="Point target.url at a llama-server of 2025 or later.",
        ) from error
