"""Whose chats fan-out can write: those whose messages are the text that was said, no less.

How llama-server reads an answer follows from the chat template: it takes reasoning and the calls
of tools apart, for some families by readers of their own, and thoughts may have a budget that no
route tells. So a chat is left to the target unless its template knows no reasoning and, of calls,
only forms that count where the request has tools. What a template does not show, a trial does.
Source: `common_chat_try_specialized_template` and the autoparser of llama.cpp (common/).
"""

import re
from collections.abc import Mapping
from typing import Any

from specproxy.coordinator.tools.detection import parser_for
from specproxy.core.vocabulary import Vocabulary
from specproxy.target.client import TargetClient
from specproxy.target.trials import try_chat

_THINKS = re.compile("think|thought|reason|channel", re.IGNORECASE)
_TOOLS = re.compile("tool|function", re.IGNORECASE)


async def chat_specials(
    client: TargetClient, template: str, vocabulary: Vocabulary
) -> frozenset[str] | None:
    """Literals of control tokens that the target shows in its chats' messages.

    Returns:
        None: it may make something else of what was said; its chats are its own.

    Raises:
        TargetUnreachable, TargetBroken: it failed.
    """
    if not is_plain(template):
        return None
    settings = await try_chat(client)
    return None if settings is None else _specials(settings, vocabulary)


def is_plain(template: str) -> bool:
    """Whether answers to chats of `template` have neither reasoning nor, without tools, calls."""
    if not template or _THINKS.search(template):
        return False
    if "[ARGS]" in template and "[CALL_ID]" not in template:
        return False  # Ministral 3's reader knows thoughts, even where the template does not
    return not _TOOLS.search(template) or parser_for(template) is not None


def _specials(settings: Mapping[str, Any], vocabulary: Vocabulary) -> frozenset[str] | None:
    preserved = settings.get("preserved_tokens")
    if settings.get("stop") != [] or not isinstance(preserved, list):
        return None
    if not all(type(token) is int and 0 <= token < len(vocabulary) for token in preserved):
        return None
    literals = map(vocabulary.special_text, preserved)
    return frozenset(literal for literal in literals if literal is not None)
