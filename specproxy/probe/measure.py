"""Ask and measure a target. Every question that it cannot answer is noted, not fatal."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from specproxy.errors import TargetError, TargetUnreachable
from specproxy.probe.pool_flags import find_pool_flags
from specproxy.probe.report import PoolFlags, Report, Speeds
from specproxy.target.batching import Batching, measure_batching
from specproxy.target.client import TargetClient
from specproxy.target.facts import TargetFacts, read_facts
from specproxy.target.fanout import ask
from specproxy.target.warmup import Warmer

LENGTHS = (1, 2, 4, 8, 16, 32)
NEW_LENGTH = 37
"""A number of tokens that nobody else is likely to have run."""
NUM_LINK_TRIES = 5
NUM_PASS_TRIES = 2
_ROUTES = {
    "/slots": ("GET", None, "slots cannot be watched (--slots)"),
    "/metrics": ("GET", None, "its own counts cannot be read (--metrics)"),
    "/apply-template": (
        "POST",
        {"messages": [{"role": "user", "content": "Hi"}]},
        "chats cannot be sped up: this build is too old to tell their prompts",
    ),
    "/tokenize": (
        "POST",
        {"content": "Hi", "add_special": False, "parse_special": True},
        "nothing can be sped up: this build is too old to tell its tokens",
    ),
    "/detokenize": (
        "POST",
        {"tokens": [1]},
        "no draft can be checked against it: this build is too old to tell its texts",
    ),
}
Say = Callable[[str], None]


async def measure(client: TargetClient, url: str, rng: random.Random, say: Say) -> Report:
    """Probe the target; takes some hundred passes.

    Args:
        say: told what is being measured.

    Raises:
        TargetError: it does not answer, is still loading, or is no llama-server.
    """
    say("what it is")
    facts = await read_facts(client)
    props = await client.json("GET", "/props")
    models = await client.json("GET", "/v1/models")
    lacking: dict[str, str] = {}
    for path, (method, body, without) in _ROUTES.items():
        await _try_route(client, method, path, body, without, lacking)
    several, batching = False, None
    pool, speeds = PoolFlags(None), None
    with _noting("/completion", "nothing can be measured", lacking):
        say("the link and its passes")
        speeds = await _speeds(client, facts, rng)
        say("slots side by side")
        several = await _takes_several(client, facts, rng)
        if several and facts.num_slots > 1:
            batching = await measure_batching(
                client, num_slots=facts.num_slots, num_vocab=facts.num_vocab, rng=rng
            )
        say("the n-gram pool")
        if not facts.takes_drafts:
            pool = await find_pool_flags(client, facts, rng)
    settings = props.get("default_generation_settings", {}).get("params", {})
    return Report(
        url=url,
        model=facts.model,
        build=facts.build,
        num_slots=facts.num_slots,
        num_context=facts.num_context,
        num_context_trained=int(models["data"][0]["meta"].get("n_ctx_train", 0)),
        num_vocab=facts.num_vocab,
        model_path=str(props.get("model_path", "")),
        template=bool(props.get("chat_template")),
        modalities=tuple(name for name, there in props.get("modalities", {}).items() if there),
        takes_drafts=facts.takes_drafts,
        shares_passes=None if batching is None else batching.shares,
        several_prompts=several,
        speculation=str(settings.get("speculative.types", "")),
        groups=_groups(props),
        pool=pool,
        speeds=None if speeds is None else _with_batching(speeds, batching),
        lacking=lacking,
    )


async def _try_route(
    client: TargetClient,
    method: str,
    path: str,
    body: object,
    without: str,
    lacking: dict[str, str],
) -> None:
    if path == "/metrics":  # is no JSON
        async with client.request(method, path) as response:
            if response.status != 200:
                lacking[path] = without
        return
    with _noting(path, without, lacking):
        await client.json(method, path, body)


@contextmanager
def _noting(what: str, without: str, lacking: dict[str, str]) -> Iterator[None]:
    """A refusal is noted; a target that is gone ends the probe."""
    try:
        yield
    except TargetUnreachable:
        raise
    except TargetError:
        lacking[what] = without


async def _speeds(client: TargetClient, facts: TargetFacts, rng: random.Random) -> Speeds:
    links = []
    for _ in range(NUM_LINK_TRIES):
        began_s = time.monotonic()
        await client.json("GET", "/health")
        links.append(time.monotonic() - began_s)
    warmer = Warmer(client, seed_slot=facts.seed_slot, num_vocab=facts.num_vocab, rng=rng)
    first_s = await warmer.run(NEW_LENGTH)
    again_s = min([await warmer.run(NEW_LENGTH) for _ in range(NUM_PASS_TRIES)])
    pass_s = {}
    for length in LENGTHS:
        await warmer.run(length)  # the first of its shape
        pass_s[length] = min([await warmer.run(length) for _ in range(NUM_PASS_TRIES)])
    return Speeds(min(links), pass_s, first_s, again_s)


async def _takes_several(client: TargetClient, facts: TargetFacts, rng: random.Random) -> bool:
    """Whether it answers several prompts in one request."""
    low = facts.num_vocab // 8
    prompts = [[rng.randrange(low, facts.num_vocab) for _ in range(4)] for _ in range(2)]
    try:
        await ask(client, prompts, {"temperature": 0})
    except TargetUnreachable:
        raise
    except TargetError:
        return False
    return True


def _groups(props: dict[str, Any]) -> int | None:
    own = props.get("specproxy")
    found = own.get("groups") if isinstance(own, dict) else props.get("pipeline_groups")
    return found if type(found) is int else None


def _with_batching(speeds: Speeds, batching: Batching | None) -> Speeds:
    if batching is None:
        return speeds
    return Speeds(
        speeds.link_s,
        speeds.pass_s,
        speeds.first_s,
        speeds.again_s,
        batching.alone_s,
        batching.together_s,
    )
