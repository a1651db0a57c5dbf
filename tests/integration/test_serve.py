"""`specproxy serve` as its users run it: a process, a settings file, a pool, a signal."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from specproxy.bench.answers import ask
from specproxy.bench.judge import Judge
from specproxy.bench.workloads import PROMPTS
from specproxy.pool.demo import DemoPool
from specproxy.settings import TargetSettings
from specproxy.target.client import TargetClient
from tests.command_lines import tried

COMMAND = (sys.executable, "-m", "specproxy.cli", "serve", "--config")
EXAMPLE = Path(__file__).parents[2] / "configs" / "example.yaml"
START_S = 60.0
NUM_TOKENS = 32
PROMPT = PROMPTS[3]


@asynccontextmanager
async def started(config: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The process; killed at the end if it still runs."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPECPROXY_")}
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        str(config),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**clean, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_ready(client: TargetClient) -> str:
    """The mode that the proxy settles on."""
    async with asyncio.timeout(START_S):
        while True:
            (route,) = (await client.json("GET", "/specproxy/status"))["routes"]
            if route["ready"]:
                return str(route["mode"])
            await asyncio.sleep(0.1)


@pytest.mark.real
@pytest.mark.asyncio(loop_scope="session")
async def test_told_to_end_it_ends_the_answer_first(
    demo_pool: DemoPool, plain: TargetClient, judge: Judge, tmp_path: Path
) -> None:
    written = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    del written["coordinator"]  # there is a target
    written["listen"]["port"] = 0
    written["target"]["url"] = demo_pool.url
    written["draft"] |= {"model": str(demo_pool.draft_model), "context_tokens": 4096}
    config = tmp_path / "my.yaml"
    config.write_text(yaml.safe_dump(written), encoding="utf-8")
    async with started(config) as process:
        assert process.stdout is not None
        async with asyncio.timeout(START_S):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("specproxy listens on http://127.0.0.1:")
        async with TargetClient(TargetSettings(url=line.split()[-1])) as client:
            assert await until_ready(client) == "seeding"
            pieces: list[str] = []

            def end(piece: str) -> None:
                pieces.append(piece)
                if len(pieces) == 1:
                    process.send_signal(signal.SIGTERM)

            answer = await ask(client, PROMPT.messages, NUM_TOKENS, on_text=end)
        async with asyncio.timeout(30):
            _, stderr = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in stderr
    assert b"mode=seeding" in stderr
    reference = await ask(plain, PROMPT.messages, NUM_TOKENS)
    verdict = await judge.judge(PROMPT.messages, NUM_TOKENS, reference=reference, answer=answer)
    assert verdict.identical, verdict


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("target: {urll: 'http://127.0.0.1:1'}", "target.urll: no such key"),
        ("target: {url: '127.0.0.1:8080'}", "target.url: "),
        ("draft: {model: /nowhere.gguf}", "there is no file /nowhere.gguf"),
        ("draft: {num_threads: 1}", "draft.model: Field required"),
        ("seeding: {block_tokens: 0}", "seeding.block_tokens: "),
        ("listen: {host: 0.0.0.0}", "Set listen.api_key"),
    ],
)
def test_a_wrong_file_is_one_clear_line(written: str, said: str, tmp_path: Path) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text(written, encoding="utf-8")
    ended = tried("serve", "--config", str(config))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("specproxy: error: ")
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr


async def test_a_file_that_is_no_yaml_is_told_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "wrong.yaml"
    config.write_text("route: here\nlisten: [", encoding="utf-8")
    async with started(config) as process, asyncio.timeout(START_S):
        _, stderr = await process.communicate()
    assert process.returncode == 2
    assert stderr.startswith(b"specproxy: error: The settings file ")
    assert b"line 2, column 10" in stderr
    assert b"Traceback" not in stderr
