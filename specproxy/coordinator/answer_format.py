"""How a model writes its answers: plain text, reasoning tags, tool calls; read off its template."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from specproxy.coordinator.capabilities import Capabilities
from specproxy.coordinator.formats import plain_grammar_of, report, schema_of
from specproxy.coordinator.jinja import JinjaProgram
from specproxy.coordinator.messages import read_tools
from specproxy.coordinator.schema.converter import SchemaConverter
from specproxy.coordinator.tools.detection import parser_for
from specproxy.coordinator.tools.harmony import HarmonyFormat, add_final
from specproxy.coordinator.tools.protocol import Tool, ToolChoice, ToolFormat, ToolParser
from specproxy.coordinator.tools.reasoning import PlainParser, ReasoningParser, open_reasoning
from specproxy.coordinator.tools.structured import StructuredParser
from specproxy.coordinator.tools.until import add_until
from specproxy.errors import RequestError

MISTRAL_TAGS = ("[THINK]", "[/THINK]")
NEWLINE = ' "\\n"?'


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """How to generate and read the answers to one request.

    Attributes:
        grammar: GBNF that they must follow; empty: none.
        special_texts: literals of control tokens that must reach the parser as text.
        parser: makes the reader of one answer.
    """

    grammar: str
    special_texts: frozenset[str]
    parser: Callable[[], ToolParser]


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """One per model.

    Attributes:
        tools: how it writes tool calls; None: in no way that is known here.
        thinking: what stands before and after its reasoning; None: it has no such tags.
    """

    tools: ToolFormat | None
    thinking: tuple[str, str] | None

    @classmethod
    def of(cls, template_source: str) -> Self:
        """The format that `template_source` shows, by its text and by what it renders.

        Raises:
            ConfigError: it is no template.
        """
        program = JinjaProgram(template_source, model_name="the model")
        thinking = Capabilities.of(program).thinking
        if thinking is None and "[THINK]" in template_source:
            thinking = MISTRAL_TAGS
        return cls(parser_for(template_source), thinking)

    def plan(self, prompt: str, body: Mapping[str, Any]) -> AnswerPlan:
        """How to generate and read the answers to a chat request.

        Args:
            prompt: the rendered text.

        Raises:
            RequestError: what is asked for contradicts itself or is not supported.
        """
        tools = read_tools(body.get("tools"))
        choice = body.get("tool_choice") or "auto"
        parallel = bool(body.get("parallel_tool_calls", True))
        schema, grammar = schema_of(body), plain_grammar_of(body)
        if grammar and callable_tools(tools, choice):
            raise RequestError(
                "`grammar` and `tools` exclude each other.", remedy="Send one of them."
            )
        if schema is not None:
            grammar, tools = self.response_grammar(schema, prompt), []
        elif tools and not grammar:
            grammar = self.grammar(tools, choice, parallel, prompt)
        structured = schema is not None
        splits = body.get("reasoning_format") != "none"

        def parser() -> ToolParser:
            return self.parser(
                prompt, tools, choice, parallel, structured=structured, splits=splits
            )

        parser()  # refuses what it cannot read
        return AnswerPlan(grammar, self.special_texts(tools, choice), parser)

    def special_texts(self, tools: Sequence[Tool], tool_choice: ToolChoice) -> frozenset[str]:
        """Literals of control tokens that must reach the parser of such a request as text."""
        tags = frozenset(tag.strip() for tag in self.thinking or ())
        if self.tools is not None and (
            self.tools.structures_all or callable_tools(tools, tool_choice)
        ):
            return tags | self.tools.special_texts
        return tags

    def parser(
        self,
        prompt: str,
        tools: Sequence[Tool] = (),
        tool_choice: ToolChoice = "auto",
        parallel: bool = True,
        *,
        structured: bool = False,
        splits: bool = True,
        new_id: Callable[[], str] | None = None,
    ) -> ToolParser:
        """A parser for one answer to `prompt`, with or without tools.

        Args:
            prompt: the rendered text.
            structured: the answer follows a JSON schema.
            splits: reasoning in tags is told from content.

        Raises:
            RequestError: tools are asked for, but this model's format is not known.
        """
        wanted = callable_tools(tools, tool_choice)
        structures_all = self.tools is not None and self.tools.structures_all
        inner: ToolParser
        if self.tools is not None and (wanted or structures_all):
            inner = self.tools.parser(wanted, tool_choice, parallel, new_id)
        elif wanted:
            raise _unknown()
        else:
            inner = StructuredParser() if structured else PlainParser()
        if self.thinking is None or structures_all or not splits:
            return inner
        return ReasoningParser(inner, self.thinking, opened=open_reasoning(prompt, self.thinking))

    def grammar(
        self,
        tools: Sequence[Tool],
        tool_choice: ToolChoice,
        parallel: bool = True,
        prompt: str = "",
    ) -> str:
        """GBNF that `tool_choice` demands; empty: none (`auto`, `none`).

        Raises:
            RequestError: this model's calls cannot be forced.
        """
        if tool_choice in ("auto", "none"):
            return ""
        wanted = callable_tools(tools, tool_choice)
        if self.tools is None:
            raise _unknown()
        converter = SchemaConverter()
        calls = self.tools.add_calls(converter, wanted, parallel)
        return self._finished(converter, calls, prompt)

    def response_grammar(self, schema: Any, prompt: str = "") -> str:
        """GBNF of an answer that follows `schema`, its reasoning apart.

        Raises:
            RequestError: no grammar says what the schema asks for.
        """
        converter = SchemaConverter()
        response = converter.add(schema, "response-format-schema")
        fenced = f'"```json" space {response} space "```"'
        if isinstance(self.tools, HarmonyFormat):
            answer = add_final(converter, response)
        elif self.thinking == MISTRAL_TAGS:
            answer = f"space {fenced}"
        else:
            answer = f"space ({fenced} | space {response} space)"
        return self._finished(converter, answer, prompt)

    def _finished(self, converter: SchemaConverter, answer: str, prompt: str) -> str:
        """The grammar of `answer`, after the reasoning that `prompt` leaves to the model."""
        report(converter)
        tags = self.thinking
        if isinstance(self.tools, HarmonyFormat):
            root = answer
        elif tags is None:
            root = f"space {answer}"
        else:
            begin, end = tags[0].strip(), tags[1].strip()
            text = add_until(converter.rules, end, "reasoning-until")
            breaks = [tag.count("\n") for tag in (tags[0], tags[1].split(end)[0])]
            after = NEWLINE * (len(tags[1]) - len(tags[1].rstrip("\n")))
            inside = f'{text}{breaks[1] * NEWLINE} "{end}"{after}'
            if open_reasoning(prompt, tags) is not None:
                root = f"{inside} {answer}"
            elif prompt.rstrip().endswith(end):
                root = f"space {answer}"
            else:
                lead = "" if tags == MISTRAL_TAGS else "space "
                root = f'{lead}("{begin}"{breaks[0] * NEWLINE} {inside})? {answer}'
        converter.rules.add("root", root)
        return converter.rules.text()


def _unknown() -> RequestError:
    return RequestError(
        "The way in which this model writes tool calls is not known here.",
        remedy="Known are Hermes/Qwen, Llama 3, Mistral and gpt-oss; send no tools.",
    )


def callable_tools(tools: Sequence[Tool], tool_choice: ToolChoice) -> list[Tool]:
    """Those of `tools` that `tool_choice` lets the answer call.

    Raises:
        RequestError: `tool_choice` is none of the known ones, or names a function that is not
            there.
    """
    if tool_choice in ("auto", "required"):
        if tool_choice == "required" and not tools:
            raise RequestError("`tool_choice` is required, but there are no `tools`.")
        return list(tools)
    if tool_choice == "none":
        return []
    name = None
    if isinstance(tool_choice, Mapping):
        function = tool_choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
    chosen = [tool for tool in tools if tool["function"]["name"] == name]
    if not chosen:
        raise RequestError(
            f"`tool_choice` {tool_choice} is not possible.",
            remedy="Use auto, none, required, or a function that is among `tools`.",
        )
    return chosen
