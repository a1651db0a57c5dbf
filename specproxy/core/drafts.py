"""How drafts travel to a target that takes them: the messages of the draft channel.

    client                                        coordinator
      | -- WebSocket /specproxy/drafts ------------> |
      | <-- Hello(channel) ------------------------- |
      | -- POST, header x-specproxy-drafts: CHANNEL/ANSWER -->   a generation request as ever
      | <-- Prompt(answer, tokens) ----------------- |   at once, before the prompt is read
      | -- Grow(answer, nodes, go_at) -------------> |   as drafted, token by token if need be
      | <-- Passed(answer, tokens, ...) ------------ |   after each pass that emitted tokens
      | <-- Ended(answer) -------------------------- |

Text frames, each one JSON object. Nothing here can change an answer: drafts that come late, wrong
or never only cost time. Unknown keys are ignored, unknown types too, so that either side may grow.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HEADER = "x-specproxy-drafts"
PATH = "/specproxy/drafts"
PROTOCOL = 1


@dataclass(frozen=True, slots=True)
class GrownNode:
    """One drafted token of an answer's tree.

    Attributes:
        id: the client's number for it, unique in the answer, ascending.
        parent: id of the node it follows; None: the confirmed token at `position - 1`.
        position: index in the whole token sequence, prompt included.
        acceptance: probability that the target says it once it has said the parent.
    """

    id: int
    parent: int | None
    position: int
    token: int
    acceptance: float


@dataclass(frozen=True, slots=True)
class Hello:
    """The channel is open; its name goes into requests' headers."""

    channel: str
    protocol: int = PROTOCOL


@dataclass(frozen=True, slots=True)
class Prompt:
    """The answer's prompt, as the target reads it."""

    answer: str
    tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class Passed:
    """A pass emitted tokens of this answer.

    Attributes:
        num_verified: drafted nodes of this answer in the pass.
        num_accepted: those of them that were emitted.
        num_rows: rows of the whole pass, other answers' included.
        duration_s: of the pass.
        waited_s: how long the answer was ready to go, or waited for drafts, before it.
    """

    answer: str
    tokens: Sequence[int]
    num_verified: int = 0
    num_accepted: int = 0
    num_rows: int = 1
    duration_s: float = 0.0
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended:
    """No more passes for this answer."""

    answer: str


@dataclass(frozen=True, slots=True)
class Grow:
    """More nodes.

    Attributes:
        go_at: run the next pass once the longest path below the last confirmed token has this
            many nodes; 0: at once, with whatever there is. Holds until the next Grow.
    """

    answer: str
    nodes: Sequence[GrownNode]
    go_at: int = 0


Message = Hello | Prompt | Passed | Ended | Grow
_KINDS: dict[str, type[Any]] = {
    "hello": Hello,
    "prompt": Prompt,
    "pass": Passed,
    "end": Ended,
    "grow": Grow,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def encode(message: Message) -> str:
    """One text frame."""
    body = {name: getattr(message, name) for name in message.__dataclass_fields__}
    if isinstance(message, Grow):
        body["nodes"] = [
            [node.id, node.parent, node.position, node.token, round(node.acceptance, 4)]
            for node in message.nodes
        ]
    return json.dumps({"type": _NAMES[type(message)], **body}, separators=(",", ":"))


def decode(frame: str) -> Message | None:
    """The message of a frame; None for a type that we do not know.

    Raises:
        ValueError: it is no message.
    """
    try:
        body: dict[str, Any] = json.loads(frame)
        kind = _KINDS.get(body.pop("type"))
        if kind is None:
            return None
        known = {name: body[name] for name in kind.__dataclass_fields__ if name in body}
        if kind is Grow:
            known["nodes"] = [GrownNode(*node) for node in known["nodes"]]
        message: Message = kind(**known)
        return message
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"no message of the draft channel: {error}") from error
