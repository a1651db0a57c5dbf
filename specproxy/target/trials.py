"""What a llama-server makes of answers on its own account, found out by some known beforehand.

A grammar leaves the target nothing else to say, so what comes back otherwise the server has done:
special tokens that it shows (`--special`), reasoning that it takes apart, spaces that it drops
(`--skip-chat-parsing`). The parameters shown beside tell what `/props` does not: `-n`, stop
strings. Source: `task_params::to_json` and `common_chat_peg_parse` of llama.cpp.
"""

import json
from typing import Any

import structlog

from specproxy.errors import TargetBroken, TargetError, TargetUnreachable
from specproxy.target.client import TargetClient

log = structlog.get_logger(__name__)

Json = dict[str, Any]

WORD = "x"
MESSAGES = ("<think>a</think>b", " b")
"""Servers that read reasoning whatever the template take it out; some drop the space."""
_MOST_TOKENS = 40
"""Of a message, should the target not heed grammars; it takes about 10."""


async def try_completion(client: TargetClient) -> Json | None:
    """Have the target complete a prompt without any limit of the request's own.

    Returns:
        The parameters that it shows; None: the answer is not just what was said.

    Raises:
        TargetUnreachable, TargetBroken: the target failed.
    """
    reply = await _reply(client, "/completion", {"prompt": WORD, **_saying(WORD)})
    if reply.get("content") != WORD or reply.get("stop_type") != "eos":
        return None
    return _shown(reply)


async def try_chat(client: TargetClient) -> Json | None:
    """The same for chats: each of `MESSAGES` as the answer to one.

    Raises:
        TargetUnreachable, TargetBroken: the target failed.
    """
    settings: Json | None = None
    for message in MESSAGES:
        settings = await _try_message(client, message)
        if settings is None:
            return None
    return settings


async def _try_message(client: TargetClient, message: str) -> Json | None:
    body = {
        "messages": [{"role": "user", "content": WORD}],
        "max_tokens": _MOST_TOKENS,
        "verbose": True,
        **_saying(message),
    }
    reply = await _reply(client, "/v1/chat/completions", body)
    try:
        (choice,) = reply["choices"]
        said = {name: value for name, value in choice["message"].items() if value}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    if said != {"role": "assistant", "content": message} or choice["finish_reason"] != "stop":
        return None
    return _shown(reply.get("__verbose"))


def _saying(text: str) -> Json:
    """Parameters that leave nothing to say but `text`, and then the end."""
    return {
        "grammar": f"root ::= {json.dumps(text)}",
        "temperature": 0,
        "ignore_eos": False,
        "logit_bias": [],  # where the server forbids the end (`--ignore-eos`)
    }


async def _reply(client: TargetClient, path: str, body: Json) -> Json:
    """The answer; an empty one if the target refuses."""
    try:
        reply = await client.json("POST", path, body)
    except (TargetUnreachable, TargetBroken):
        raise
    except TargetError as error:
        log.info("a trial was refused", reason=str(error))
        return {}
    return reply if isinstance(reply, dict) else {}


def _shown(reply: object) -> Json | None:
    settings = reply.get("generation_settings") if isinstance(reply, dict) else None
    return settings if isinstance(settings, dict) else None
