"""A draft model that the machine has no memory for: said once, and nobody goes without answers."""

import asyncio
import json
import os
import re
import resource
import signal
import sys
import urllib.request
from typing import Any

import pytest

from specproxy.pool.models import DemoModels
from specproxy.testing import Language, ScriptedTarget

START_S = 60.0
MEMORY_BYTES = 4 << 30
"""Enough for the process and the model, not for a cache of so many tokens."""
NUM_CONTEXT = 1_000_000
BODY = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "temperature": 0}


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def asked(url: str) -> Any:
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(BODY).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


@pytest.mark.real
async def test_answers_pass_through_and_the_reason_is_said(demo_models: DemoModels) -> None:
    async with ScriptedTarget(Language(mean_length=0)) as target:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "specproxy.cli", "serve", "--port", "0"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "SPECPROXY_TARGET__URL": target.url,
                "SPECPROXY_DRAFT__MODEL": str(demo_models.draft),
                "SPECPROXY_DRAFT__CONTEXT_TOKENS": str(NUM_CONTEXT),
            },
            preexec_fn=limit_memory,
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(START_S):
                line = (await process.stdout.readline()).decode()
            assert line.startswith("specproxy listens on http://"), await process.communicate()
            through = await asyncio.to_thread(asked, line.split()[-1])
            alone = await asyncio.to_thread(asked, target.url)
            assert through["choices"] == alone["choices"]
            process.send_signal(signal.SIGTERM)
            _, stderr = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
    assert process.returncode == 0
    said = " ".join(stderr.decode().split())
    assert re.search(rf"No context of \d+ tokens for {re.escape(demo_models.draft.stem)}:", said), (
        said
    )
    assert "Ask for a shorter context" in said
    assert "nothing is sped up" in said
    assert "Traceback" not in said
