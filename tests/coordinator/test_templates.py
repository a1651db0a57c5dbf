"""Chat templates: what is refused, and what never reaches llama-server's comparison."""

import logging

import pytest

from specproxy.coordinator.templates import ChatTemplate
from specproxy.errors import ConfigError, RequestError

USER = {"role": "user", "content": "Hi"}


def template(source: str | None, **more: bool) -> ChatTemplate:
    options = {"adds_bos": False, **more}
    return ChatTemplate(source, bos_text="<s>", eos_text="</s>", model_name="toy", **options)


def test_without_a_template_chatml_is_used_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        chat = template(None)
    assert "toy brings no chat template" in caplog.text
    assert chat.render([USER]) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_bos_that_the_tokenizer_adds_is_not_rendered() -> None:
    source = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    assert template(source).render([USER]) == "<s>Hi</s>"
    assert template(source, adds_bos=True).render([USER]) == "Hi</s>"
    assert template(source, adds_bos=True, adds_eos=True).render([USER]) == "Hi"


def test_a_broken_template_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="toy cannot be compiled"):
        template("{% for %}")


def test_the_template_s_own_refusal_is_told() -> None:
    chat = template("{{ raise_exception('Roles must alternate!') }}")
    with pytest.raises(RequestError, match="Roles must alternate!"):
        chat.render([USER])


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'a': 1}) }}",
        "{{ namespace.__init__.__globals__ }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ 1 / 0 }}",
        "{{ messages[0].content + 1 }}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    with pytest.raises(RequestError):
        template(source).render([USER])


def test_endless_output_is_cut() -> None:
    source = "{% for i in range(90000) %}" + "x" * 4096 + "{% endfor %}"
    with pytest.raises(RequestError, match="characters"):
        template(source).render([USER])


def test_what_model_makers_rely_on() -> None:
    source = (
        "{% generation %}{{ messages[0] | tojson }}{% endgeneration %}"
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}"
        "{% endif %}{{ i }}{% endfor %}{{ strftime_now('%%') }}"
    )
    message = {"role": "user", "content": "<é & 'x'>"}
    expected = '{"role": "user", "content": "<é & \'x\'>"}02%'
    assert template(source).render([message]) == expected


def test_tools_need_a_template_that_describes_them() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    with pytest.raises(RequestError, match="knows no tools"):
        template("{{ messages[0].content }}").render([USER], tools=[tool])
    chat = template("{{ messages[0].content }}{{ tools | tojson if tools else '' }}")
    assert '"name": "f", "description": "", "parameters": {}' in chat.render([USER], tools=[tool])


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ("Hi", "messages"),
        ([7], r"messages\[0\]"),
        ([{"content": "x"}], r"messages\[0\].role"),
        ([{"role": "user"}], r"messages\[0\]"),
        ([{"role": "user", "content": 7}], r"messages\[0\].content"),
        (
            [USER, {"role": "user", "content": [{"type": "image_url"}]}],
            r"messages\[1\].content\[0\]",
        ),
        ([{"role": "assistant", "tool_calls": {}}], r"messages\[0\].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{}]}], r"messages\[0\].tool_calls\[0\]"),
    ],
)
def test_wrong_shapes_are_named(messages: object, where: str) -> None:
    with pytest.raises(RequestError, match=f"^`{where}`") as caught:
        template(None).render(messages)
    assert caught.value.remedy


def test_past_arguments_that_are_no_json_are_refused() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{"}}
    source = (
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}"
        "{% endfor %}{% endfor %}"
    )
    with pytest.raises(RequestError, match="no JSON"):
        template(source).render([USER, {"role": "assistant", "tool_calls": [call]}, USER])


def test_wrong_variables_are_refused() -> None:
    chat = template(None)
    for wrong in ([], {"enable_thinking": "no"}):
        with pytest.raises(RequestError, match="chat_template_kwargs"):
            chat.apply({"messages": [USER], "chat_template_kwargs": wrong or "x"})
