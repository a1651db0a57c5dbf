"""Jinja as chat templates need it: sandboxed, and with the extras that model makers rely on.

Invariant: a template reads what it is given and writes text; it reaches nothing else, and its
output is bounded. The dialect is that of transformers and of llama-server's own engine.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from specproxy.errors import ConfigError, RequestError

MAX_PROMPT_CHARACTERS = 64 << 20


class _TemplateRefusal(TemplateError):
    """The template itself called `raise_exception`."""


class _GenerationBlock(Extension):
    """`{% generation %}` marks what to train on; for a prompt it means nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class JinjaProgram:
    """A compiled template. Safe to call from any thread.

    Attributes:
        source: its text.
    """

    def __init__(self, source: str, *, model_name: str) -> None:
        """Compile `source`.

        Raises:
            ConfigError: it is no template.
        """
        self.source = source
        self._model_name = model_name
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ConfigError(
                f"The chat template of {model_name} cannot be compiled: {error}.",
                remedy="Use a GGUF file with a working template.",
            ) from error

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text that the template makes of `variables`.

        Raises:
            RequestError: the template refuses them, fails on them, or writes without end.
        """
        pieces = []
        num_characters = 0
        try:
            for piece in self._template.generate(**variables):
                pieces.append(piece)
                num_characters += len(piece)
                if num_characters > MAX_PROMPT_CHARACTERS:
                    raise _TemplateRefusal(f"more than {MAX_PROMPT_CHARACTERS} characters")
        except _TemplateRefusal as error:
            raise RequestError(
                f"The chat template of {self._model_name} refuses this conversation: {error}.",
                remedy="Order and roles of the messages are the template's to choose.",
            ) from error
        except (
            TemplateError,
            TypeError,
            ValueError,
            AttributeError,
            LookupError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise RequestError(
                f"The chat template of {self._model_name} fails on this conversation: {error}.",
                remedy="Its messages may lack a field that the template reads.",
            ) from error
        return "".join(pieces)


def _raise_exception(message: object) -> NoReturn:
    raise _TemplateRefusal(str(message).rstrip("."))


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
