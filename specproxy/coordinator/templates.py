"""Chat messages to prompt text, by the template that the model file brings.

Invariant: the text equals that of llama-server's `/apply-template` for the same request; where
its ways cannot be had, the request is refused. Source: `common_chat_templates_apply_jinja` of
llama.cpp (common/chat.cpp).
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self

from specproxy.coordinator.capabilities import Capabilities
from specproxy.coordinator.jinja import JinjaProgram
from specproxy.coordinator.messages import Message, joined_text, read_messages, read_tools
from specproxy.coordinator.shaping import is_harmony, is_ministral, shape
from specproxy.core.prefix import common_prefix
from specproxy.errors import RequestError
from specproxy.llama.template import ModelTemplate

CHATML = (
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "  {{- '<|im_start|>assistant\n' -}}\n"
    "{%- endif -%}"
)
ContinuedPart = Literal["reasoning_content", "content"]

_OVERSTRICT = (
    # gpt-oss refuses its own channels in a content, which a client may well send back
    '{%- if "<|channel|>analysis<|message|>" in message.content or '
    '"<|channel|>final<|message|>" in message.content %}',
    # Mistral refuses an assistant's message that is empty
    "{%- if (message['content'] is none or message['content'] == '' or "
    "message['content']|length == 0) and (message['tool_calls'] is not defined or "
    "message['tool_calls'] is none or message['tool_calls']|length == 0) %}",
)
_log = logging.getLogger(__name__)

_OWN_VARIABLES = frozenset(
    {"messages", "tools", "add_generation_prompt", "continued_part", "bos_token", "eos_token"}
)
"""What a template is given by us; a request's own variables have other names."""


class ChatTemplate:
    """A compiled template. Safe to call from any thread.

    Attributes:
        source: the Jinja text in use.
    """

    def __init__(
        self,
        source: str | None,
        *,
        bos_text: str,
        eos_text: str,
        model_name: str,
        adds_bos: bool,
        adds_eos: bool = False,
    ) -> None:
        """Compile `source`; None or empty: ChatML, said in the log.

        Args:
            adds_bos: the tokenizer puts BOS in front (`add_special=True`), so that a rendered
                prompt must not begin with it.
            adds_eos: the same for EOS at the end.

        Raises:
            ConfigError: it is no template.
        """
        if not source:
            _log.warning("%s brings no chat template; ChatML is used", model_name)
            source = CHATML
        self.source = source
        self._bos_text = bos_text
        self._eos_text = eos_text
        self._model_name = model_name
        self._surplus_bos = bos_text if adds_bos else ""
        self._surplus_eos = eos_text if adds_eos else ""
        for check in _OVERSTRICT:
            source = source.replace(check, "{%- if false %}")
        self._program = JinjaProgram(source, model_name=model_name)
        self._capabilities = Capabilities.of(self._program)
        self._is_harmony = is_harmony(source)
        self._is_ministral = is_ministral(source)

    @classmethod
    def of(cls, found: ModelTemplate, model_name: str) -> Self:
        """The template that was found in a model's file.

        Raises:
            ConfigError: it is none.
        """
        return cls(
            found.source,
            bos_text=found.bos_text,
            eos_text=found.eos_text,
            model_name=model_name,
            adds_bos=found.adds_bos,
            adds_eos=found.adds_eos,
        )

    def __repr__(self) -> str:
        return f"<ChatTemplate {self._model_name} {self._capabilities}>"

    @property
    def takes_tools(self) -> bool:
        """Whether descriptions of tools show in its prompts."""
        return self._capabilities.tools

    def apply(self, body: Mapping[str, Any]) -> str:
        """The prompt of a chat request: `messages`, `tools`, `tool_choice`,
        `add_generation_prompt`, `continue_final_message`, `chat_template_kwargs`,
        `reasoning_effort`.

        Tokenize it with `add_special=True, parse_special=True`.

        Raises:
            RequestError: wrong shapes, or the template refuses.
        """
        kwargs = body.get("chat_template_kwargs") or {}
        if not isinstance(kwargs, Mapping):
            raise RequestError("`chat_template_kwargs` must be an object.")
        variables = dict(kwargs)
        taken = sorted(_OWN_VARIABLES & variables.keys())
        if taken:
            raise RequestError(
                f"`chat_template_kwargs.{taken[0]}` is no variable of your own.",
                remedy="Send it as a field of the request, or leave it out.",
            )
        if not isinstance(variables.setdefault("enable_thinking", True), bool):
            raise RequestError("`chat_template_kwargs.enable_thinking` must be true or false.")
        effort = body.get("reasoning_effort")
        if effort == "none":
            variables["enable_thinking"] = False
            variables.pop("reasoning_effort", None)
        elif effort:
            variables["reasoning_effort"] = effort
        generation = bool(body.get("add_generation_prompt", True))
        continuing = body.get("continue_final_message")
        if continuing and generation:
            raise RequestError(
                "`add_generation_prompt` and `continue_final_message` exclude each other.",
                remedy="To continue an answer, set `add_generation_prompt` to false.",
            )
        messages = body.get("messages")
        if continuing and not _ends_open(messages):
            raise RequestError(
                "`continue_final_message` needs a last message of the assistant.",
                remedy="Leave it out, or append the beginning of the answer.",
            )
        unused = body.get("tool_choice") == "none" and not self.takes_tools
        return self.render(
            messages,
            tools=None if unused else body.get("tools"),
            add_generation_prompt=generation,
            continued_part=continuing if continuing in ("reasoning_content", "content") else None,
            **variables,
        )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]] | Any,
        *,
        tools: Sequence[Mapping[str, Any]] | Any | None = None,
        add_generation_prompt: bool = True,
        continued_part: ContinuedPart | None = None,
        **kwargs: Any,
    ) -> str:
        """The prompt of a conversation; a last message of the assistant is continued.

        Args:
            continued_part: what the answer goes on with; None: its content, or its reasoning
                where it has no content yet.
            kwargs: more variables for the template.

        Raises:
            RequestError: wrong shapes, tools for a template without, or the template refuses.
        """
        read = read_messages(messages)
        variables = self._variables(read_tools(tools), kwargs)
        continued = _take_continued(read)
        shaped = shape(read, self._capabilities, self.source)
        if continued is None:
            return self._rendered(shaped, add_generation_prompt, variables)
        prompt = self._rendered(shaped, False, variables)
        return prompt + self._opening(shaped, variables, continued, continued_part)

    def _variables(self, tools: list[dict[str, Any]], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        now = datetime.now()
        variables = {
            "bos_token": self._bos_text,
            "eos_token": self._eos_text,
            "enable_thinking": True,
            "datetime": now.strftime("%b %d %Y"),
            "date_string": now.strftime("%d %b %Y"),
        }
        if tools:
            if not self._capabilities.tools:
                raise RequestError(
                    f"The chat template of {self._model_name} knows no tools.",
                    remedy="Use a model whose template describes tools, or send none.",
                )
            variables["tools"] = tools
        return {**variables, **kwargs}

    def _rendered(
        self, messages: list[Message], add_generation_prompt: bool, variables: Mapping[str, Any]
    ) -> str:
        generation = {"add_generation_prompt": True} if add_generation_prompt else {}
        text = self._program.render({**variables, **generation, "messages": messages})
        return text.removeprefix(self._surplus_bos).removesuffix(self._surplus_eos)

    def _opening(
        self,
        messages: list[Message],
        variables: Mapping[str, Any],
        continued: Message,
        part: ContinuedPart | None,
    ) -> str:
        """What follows the conversation when `continued` is the answer's beginning."""
        reasoning = continued.get("reasoning_content", "")
        content = joined_text(continued["content"], "\n\n")  # other than in all other messages
        only_reasoning = part == "reasoning_content" or (
            part is None and bool(reasoning) and not content
        )
        if self._is_harmony:
            opening = f"<|start|>assistant<|channel|>analysis<|message|>{reasoning}"
            if only_reasoning:
                return opening
            return f"{opening}<|end|><|start|>assistant<|channel|>final<|message|>{content}"
        if self._is_ministral:
            return f"[THINK]{reasoning}" + ("" if only_reasoning else f"[/THINK]{content}")
        closed = self._rendered(messages, False, variables)
        opened = self._rendered(messages, True, variables)
        opening = opened[common_prefix(closed, opened) :]
        if self._capabilities.thinking is not None:
            begin, end = self._capabilities.thinking
            opening = opening.split(begin, 1)[0] + begin + reasoning
            if not only_reasoning:
                opening += end
        return opening if only_reasoning else opening + content


def _ends_open(messages: Any) -> bool:
    """Whether the last message is the assistant's."""
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, Mapping) and last.get("role") == "assistant"


def _take_continued(messages: list[Message]) -> Message | None:
    """Remove and return the last message where it is an answer to be continued."""
    if not messages or messages[-1]["role"] != "assistant":
        return None
    if len(messages) > 1 and messages[-2]["role"] == "assistant":
        raise RequestError(
            "Two messages of the assistant at the end cannot be continued.",
            remedy="Join them, or put a message of the user between.",
        )
    if messages[-1].get("tool_calls"):
        raise RequestError(
            "A message of the assistant with tool calls cannot be continued.",
            remedy="Append the tools' results.",
        )
    return messages.pop()
