"""One request, as a client sends it."""

import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Exchange:
    """One request.

    Attributes:
        body: an object to be sent as JSON, bytes to be sent as they are, or None.
    """

    method: str
    path: str
    body: Any = None
    headers: Json = field(default_factory=dict)

    def __str__(self) -> str:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return f"{self.method} {self.path} {body[:200].decode('utf-8', 'replace')}"

    @property
    def sent(self) -> Json:
        """Arguments of an HTTP client."""
        if self.body is None:
            return {"headers": self.headers}
        headers = {"Content-Type": "application/json", **self.headers}
        data = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return {"headers": headers, "data": data}
