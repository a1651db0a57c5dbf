"""What a generation request asks for, as far as the proxy reads it; the target judges the rest."""

import json
from dataclasses import dataclass

from aiohttp import hdrs, web

from specproxy.admission import chooses_fields, num_choices, wants_probabilities
from specproxy.server.forms import is_form, model_of_form
from specproxy.server.listener import Listener
from specproxy.server.probabilities import check_probabilities
from specproxy.target.deltas import Json, Kind, kind_of


@dataclass(frozen=True, slots=True)
class Asked:
    """One request.

    Attributes:
        kind: the shape of its answer; None: no generation.
        body: its JSON object; None for anything else.
        model: what it names, there or in a form.
    """

    kind: Kind | None
    body: Json | None
    model: str | None = None

    @property
    def streamed(self) -> bool:
        """It asks for a stream."""
        return self.body is not None and self.body.get("stream") is True

    @property
    def wants_probabilities(self) -> bool:
        return self.body is not None and wants_probabilities(self.body)

    def listener(self) -> Listener | None:
        """Hears whether the answer's stream ends as it should; None where nobody can tell."""
        if self.kind is None or self.body is None or chooses_fields(self.body):
            return None
        return Listener(
            self.kind,
            num_choices=num_choices(self.kind, self.body),
            check=check_probabilities if self.wants_probabilities else None,
        )


def read_asked(request: web.Request, raw: bytes) -> Asked:
    """Read a request's body.

    Strict as the target is: UTF-8 without a byte order mark, no NaN.
    """
    kind = kind_of(request.path)
    content_type = request.headers.get(hdrs.CONTENT_TYPE, "")
    if is_form(content_type):
        return Asked(kind, None, model_of_form(content_type, raw))
    try:
        body = json.loads(raw.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return Asked(kind, None)
    model = body.get("model")
    return Asked(kind, body, model if isinstance(model, str) else None)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
