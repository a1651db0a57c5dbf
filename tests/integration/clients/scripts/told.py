"""What a script is told to do, and how it says what came of it.

    python some_client.py URL ACTION '{"text": ..., "max_tokens": ...}'

An action gives the values that are printed, as one line of JSON. Then the script stays until its
input ends, for what a client leaves behind must go without the client's death.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NUM_READ_BEFORE_LEAVING = 3


@dataclass(frozen=True)
class Told:
    """The proxy's URL, and what to ask it."""

    url: str
    text: str
    max_tokens: int

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "user", "content": self.text}]


Action = Callable[[Told], dict[str, Any]]


def run(*, chat: Action, call: Action, leave: Action) -> None:
    """Do what the command line says.

    Args:
        chat: a streamed answer: `pieces`.
        call: an answer that has to be a call of `get_weather`: its `name` and `arguments`.
        leave: a streamed answer, left after a few pieces.
    """
    url, action, asked = sys.argv[1:]
    actions = {"chat": chat, "call": call, "leave": leave}
    print(json.dumps(actions[action](Told(url, **json.loads(asked)))), flush=True)
    sys.stdin.read()


WEATHER_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Oslo"]}},
    "required": ["city"],
}
"""Of the arguments of `get_weather`."""
WEATHER_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": WEATHER_SCHEMA,
    },
}
"""As OpenAI's routes want it."""
