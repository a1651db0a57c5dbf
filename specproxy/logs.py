"""structlog, set up once: readable on a console, JSON for machines."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from specproxy.settings import LogSettings


def configure(settings: LogSettings) -> None:
    """Send the project's log, and the standard library's, to stderr in the wanted form."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,  # a rich traceback would show keys
    ]
    renderer: Any
    if settings.format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        shared.append(_escaped)
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))


def _escaped(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Any:
    """Words of clients, as in paths, must not steer the terminal. JSON escapes them by itself."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = "".join(
                sign
                if sign.isprintable() or sign in "\n\t"
                else sign.encode("unicode_escape").decode()
                for sign in value
            )
    return event
