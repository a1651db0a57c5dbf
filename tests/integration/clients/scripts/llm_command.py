"""The command `llm`, with the proxy among its OpenAI-compatible models.

It cannot be told that it must call a tool; it is offered one, which ends the command.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from told import NUM_READ_BEFORE_LEAVING, Told, run

FUNCTIONS = """
import json
import os


def get_weather(city: str) -> str:
    "The weather in a city."
    print(json.dumps({"name": "get_weather", "arguments": {"city": city}}), flush=True)
    os._exit(0)
"""


@contextmanager
def answering(told: Told, *more: str) -> Iterator[subprocess.Popen[str]]:
    """`llm` while it answers; its output comes character by character."""
    model = {
        "model_id": "proxied",
        "model_name": "any",
        "api_base": f"{told.url}/v1",
        "supports_tools": True,
    }
    options = ["-o", "temperature", "0", "-o", "max_tokens", str(told.max_tokens)]
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder, "extra-openai-models.yaml")
        models.write_text(json.dumps([model]), encoding="utf-8")  # JSON is YAML, too
        process = subprocess.Popen(
            [sys.executable, "-m", "llm", "-m", "proxied", "--no-log", *options, *more, told.text],
            env={**os.environ, "LLM_USER_PATH": folder, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            yield process


def chat(told: Told) -> dict[str, Any]:
    with answering(told) as process:
        assert process.stdout is not None
        pieces = list(iter(lambda: process.stdout.read(1), ""))
    if process.returncode:
        raise SystemExit(process.returncode)
    *pieces, end = pieces
    assert end == "\n"  # the command's own
    return {"pieces": pieces}


def call(told: Told) -> dict[str, Any]:
    with answering(told, "--functions", FUNCTIONS) as process:
        assert process.stdout is not None
        made: dict[str, Any] = json.loads(process.stdout.read())
    return made


def leave(told: Told) -> dict[str, Any]:
    with answering(told) as process:
        assert process.stdout is not None
        process.stdout.read(NUM_READ_BEFORE_LEAVING)
        process.send_signal(signal.SIGINT)  # what its user would do
    return {}


if __name__ == "__main__":
    run(chat=chat, call=call, leave=leave)
