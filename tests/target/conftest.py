"""A real llama-server to ask both ways: plain, and as a stream that is assembled."""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specproxy.pool.processes import free_ports
from specproxy.target.assemble import (
    Assembler,
    Json,
    Kind,
    TargetErrorReply,
    event_json,
    streamed_body,
)
from specproxy.target.sse import SSEParser

PATHS: dict[Kind, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "native": "/completion",
}

TOOL_TEMPLATE = """
{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools>\\nAnswer with <tool_call>\\n{"name": <name>, "arguments": <object>}\\n' }}
    {{- '</tool_call><|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.reasoning_content %}
        {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- message.content }}
    {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {%- if (loop.first and message.content) or (not loop.first) %}
                {{- '\\n' }}
            {%- endif %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""".lstrip()


class Server:
    """The real llama-server. Answers are levelled: without what differs between any two."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, kind: Kind, body: Json) -> tuple[int, bytes]:
        request = urllib.request.Request(
            self.url + PATHS[kind],
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def assembled(self, kind: Kind, body: Json) -> tuple[int, Json]:
        status, raw = self.post(kind, streamed_body(kind, body))
        if status != 200:
            return status, json.loads(raw)
        assembler = Assembler(kind, body)
        try:
            for event in _events_of(raw):
                assembler.add(event)
            return 200, assembler.result()
        except TargetErrorReply as error:
            return error.status, error.body

    def events(self, kind: Kind, body: Json) -> list[Json]:
        return _events_of(self.post(kind, streamed_body(kind, body))[1])

    def both_ways(self, kind: Kind, body: Json) -> tuple[tuple[int, str], tuple[int, str]]:
        """Status and levelled text of the plain answer and of the assembled one."""
        status, raw = self.post(kind, body)
        assembled_status, assembled = self.assembled(kind, body)
        plain: Json = json.loads(raw)
        return (status, _text(plain, body)), (assembled_status, _text(assembled, body))


def _events_of(raw: bytes) -> list[Json]:
    events = [event_json(event.data) for event in SSEParser().feed(raw)]
    return [event for event in events if event is not None]


def _text(answer: Json, body: Json) -> str:
    if "id_slot" not in body and "id_slot" in answer:
        answer = {**answer, "id_slot": "any"}
    return json.dumps(_levelled(answer), ensure_ascii=False, indent=1)


def _levelled(value: Any, key: str = "") -> Any:
    if key in ("id", "created"):
        return type(value).__name__
    if key == "timings":
        return {name: count if name.endswith("_n") else "" for name, count in value.items()}
    if isinstance(value, dict):
        return {name: _levelled(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_levelled(inner) for inner in value]
    return value


@contextmanager
def _running(request: pytest.FixtureRequest, folder: Path, *flags: str) -> Iterator[Server]:
    named = os.environ.get("SPECPROXY_TEST_DRAFT_MODEL")
    model = Path(named) if named else request.getfixturevalue("demo_models").draft
    (port,) = free_ports(1)
    log_path = folder / "llama-server.log"
    more = f"-t 1 -tb 1 -np 2 -c 4096 --no-webui --host 127.0.0.1 --port {port}".split()
    command = [str(request.getfixturevalue("binaries").server), "-m", str(model), *more, *flags]
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        while not _is_ready(url):
            assert process.poll() is None, log_path.read_text()[-2000:]
            time.sleep(0.2)
        yield Server(url)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with _running(request, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def tool_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """With a chat template that knows tools and thoughts, as the model's own does not."""
    folder = tmp_path_factory.mktemp("tool_server")
    template = folder / "tools.jinja"
    template.write_text(TOOL_TEMPLATE)
    with _running(request, folder, "--chat-template-file", str(template)) as running:
        yield running
