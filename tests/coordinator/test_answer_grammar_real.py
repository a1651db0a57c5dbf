"""Forced answers equal llama-server's: the same server, once with its grammar, once with ours."""

from pathlib import Path
from typing import Any

import pytest

from specproxy.coordinator.answer_format import AnswerFormat
from specproxy.coordinator.templates import ChatTemplate
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from tests.coordinator.conversations import ADD, WEATHER, user
from tests.coordinator.plain_server import PlainServer, plain_server
from tests.coordinator.tools.test_parsers import Message, read

pytestmark = pytest.mark.real
TEMPLATES = Path(__file__).parent / "templates"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
    "required": ["city", "n"],
}
FORCED: list[dict[str, Any]] = [
    {"tools": [WEATHER, ADD], "tool_choice": "required"},
    {"tools": [ADD], "tool_choice": "required", "parallel_tool_calls": False},
]
STRUCTURED: list[dict[str, Any]] = [
    {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    {"response_format": {"type": "json_object"}},
    {"json_schema": {"type": "integer", "minimum": 3, "maximum": 250}},
]
QUESTION = "Add 2 and 3 with the tool."


async def expected(server: PlainServer, body: dict[str, Any]) -> tuple[Message, str]:
    status, answer = await server.post("/v1/chat/completions", body)
    assert status == 200, answer
    (choice,) = answer["choices"]
    message = choice["message"]
    calls = [
        ["", call["function"]["name"], call["function"]["arguments"]]
        for call in message.get("tool_calls", [])
    ]
    reasoning = message.get("reasoning_content") or ""
    return Message(message["content"] or "", reasoning, calls), choice["finish_reason"]


@pytest.mark.parametrize("name", ["hermes", "llama3", "mistral", "harmony", "thinking"])
async def test_forced_answers(
    binaries: LlamaBinaries, demo_models: DemoModels, tmp_path: Path, name: str
) -> None:
    path = TEMPLATES / f"{name}.jinja"
    arguments = ("--chat-template-file", str(path))
    async with plain_server(binaries, demo_models.draft, tmp_path, *arguments) as server:
        props = await server.get("/props")
        template = ChatTemplate(
            path.read_text(),
            bos_text=props["bos_token"],
            eos_text=props["eos_token"],
            model_name=name,
            adds_bos=False,
        )
        format_ = AnswerFormat.of(template.source)
        num_complete = 0
        for more in [*(FORCED if format_.tools else []), *STRUCTURED]:
            common = {"temperature": 0, "n_predict": 40, "cache_prompt": False}
            body = {"messages": [user(QUESTION)], **more, **common}
            theirs, finish = await expected(server, body)
            prompt = template.apply(body)
            plan = format_.plan(prompt, body)
            native = {"prompt": prompt, "grammar": plan.grammar, **common}
            status, answer = await server.post("/completion", native)
            assert status == 200, answer
            ours = read(plan.parser(), [answer["content"]])
            ours.calls = [["", call, arguments] for _, call, arguments in ours.calls]
            if finish != "length":
                num_complete += 1
                assert ours == theirs, answer["content"]
            else:  # how a cut answer ends is each parser's own affair
                assert [call[:2] for call in ours.calls] == [call[:2] for call in theirs.calls]
                assert ours.reasoning.startswith(theirs.reasoning)
        assert num_complete or name == "harmony"  # this model reasons on and on there
