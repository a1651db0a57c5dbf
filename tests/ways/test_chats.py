"""Whose chats fan-out takes, by their templates and by a trial."""

from pathlib import Path

import pytest

from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from specproxy.testing import Language, ScriptedTarget
from specproxy.testing.chat import TEMPLATE, THINKING_TEMPLATE
from specproxy.ways.chats import chat_specials, is_plain

TEMPLATES = Path(__file__).parent.parent / "coordinator" / "templates"
QWEN_2 = """
{%- if tools %}<|im_start|>system\n# Tools\n<tools></tools> in <tool_call></tool_call>{%- endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{%- endfor %}
"""
GEMMA_2 = "{% for m in messages %}<start_of_turn>{{ m.role }}\n{{ m.content | trim }}{% endfor %}"
MISTRAL = "[SYSTEM_PROMPT][INST]{{ messages[0].content }}[/INST][TOOL_CALLS]f[CALL_ID]1[ARGS]{}"
MINISTRAL = MISTRAL.replace("[CALL_ID]1", "")


@pytest.mark.parametrize("template", [TEMPLATE, QWEN_2, GEMMA_2, MISTRAL])
def test_plain_templates(template: str) -> None:
    assert is_plain(template)


@pytest.mark.parametrize(
    "template",
    [
        "",
        THINKING_TEMPLATE,
        MINISTRAL,
        QWEN_2 + "{{ m.reasoning_content }}",
        QWEN_2 + "{% if enable_thinking %}<|channel>{% endif %}",
        "<|START_THINKING|>{{ messages }}",
        "Here is my Thought process: {{ messages }}",
        "<|start|>assistant<|channel|>final<|message|>{{ messages }}",
        ">>>all\n{{ m.content }} {% for tool in tools %}>>>${recipient}{% endfor %}",
        "<|tool_call_start|>[f()]<|tool_call_end|>",
        "<tool_call><function=f><parameter=x>",
    ],
)
def test_templates_whose_answers_are_read_otherwise(template: str) -> None:
    assert not is_plain(template)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("hermes", True), ("llama3", True), ("mistral", True), ("no_system", True)),
        *(("harmony", False), ("thinking", False)),
    ],
)
def test_templates_of_models(name: str, expected: bool) -> None:
    assert is_plain((TEMPLATES / f"{name}.jinja").read_text()) is expected


@pytest.mark.parametrize(
    ("template", "shows_special", "expected"),
    [(TEMPLATE, False, frozenset()), (TEMPLATE, True, None), (THINKING_TEMPLATE, False, None)],
)
async def test_both_must_say_so(
    template: str, shows_special: bool, expected: frozenset[str] | None
) -> None:
    async with (
        ScriptedTarget(Language(), shows_special=shows_special) as target,
        TargetClient(TargetSettings(url=target.url)) as client,
    ):
        vocabulary = target.language.vocabulary
        assert await chat_specials(client, template, vocabulary) == expected
