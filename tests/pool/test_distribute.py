"""Files to a real ssh server of the test's own: interrupted, resumed, verified."""

import asyncio
import getpass
import os
import random
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from specproxy.core.tasks import spawn, stop
from specproxy.errors import ConfigError
from specproxy.pool.distribute import destination_of, distribute_command, files_of
from specproxy.pool.transfer import Way, send

asyncssh = pytest.importorskip("asyncssh")
needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the ssh client")
WAYS = [
    "pipe",
    pytest.param(
        "rsync", marks=pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync")
    ),
]


@dataclass
class SshServer:
    """Runs what it is told, with a limit on what it takes in.

    Attributes:
        command: an ssh client's command line for it.
        left_bytes: how much more it reads from clients before it breaks the connection.
    """

    command: str
    left_bytes: float = float("inf")
    num_commands: int = 0

    async def handle(self, process: Any) -> None:
        self.num_commands += 1
        child = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", process.command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        feeding = spawn(self._feed(process, child.stdin), name="feed")
        try:
            while data := await child.stdout.read(1 << 16):
                process.stdout.write(data)
            process.exit(await child.wait())
        finally:
            await stop(feeding)
            if child.returncode is None:
                child.kill()
                await child.wait()

    async def _feed(self, process: Any, pipe: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncssh.Error):
                while data := await process.stdin.read(1 << 15):
                    self.left_bytes -= len(data)
                    if self.left_bytes < 0:
                        process.channel.get_connection().abort()
                        return
                    pipe.write(data)
                    await pipe.drain()
        finally:
            pipe.close()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SshServer]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    identity = tmp_path / "identity"
    key.write_private_key(str(identity))
    identity.chmod(0o600)
    running = SshServer("")
    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
        authorized_client_keys=asyncssh.import_authorized_keys(key.export_public_key().decode()),
        process_factory=running.handle,
        encoding=None,
    )
    options = {
        "UserKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "no",
        "BatchMode": "yes",
        "LogLevel": "ERROR",
    }
    running.command = shlex.join(
        [
            *("ssh", "-F", "/dev/null", "-p", str(listener.get_port()), "-i", str(identity)),
            *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
        ]
    )
    yield running
    listener.close()
    await listener.wait_closed()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "a model's file.gguf"
    path.write_bytes(random.Random(1).randbytes(3_000_000))
    return path


def place(tmp_path: Path) -> tuple[Path, str]:
    folder = tmp_path / "far away"
    return folder, f"{getpass.getuser()}@127.0.0.1:{folder}"


def content_of(path: Path) -> bytes:
    return path.read_bytes()


async def run(model: Path, *places: str, **more: Any) -> tuple[int, str]:
    file = StringIO()
    out, silent = Console(file=file, width=300), Console(file=StringIO())
    return await distribute_command(model, list(places), silent, out, **more), file.getvalue()


@needs_ssh
@pytest.mark.parametrize("way", WAYS)
async def test_interrupted_and_resumed(
    server: SshServer, model: Path, tmp_path: Path, way: Way
) -> None:
    folder, where = place(tmp_path)
    server.left_bytes = 1_500_000
    code, said = await run(model, where, ssh=server.command, way=way)
    assert code == 1
    assert "goes on where it was" in said
    part, final = folder / f".{model.name}.part", folder / model.name
    assert not final.exists()
    kept = part.stat().st_size
    assert 0 < kept < 3_000_000
    server.left_bytes = 3_000_000 - kept + 200_000  # not enough to begin anew
    code, said = await run(model, where, ssh=server.command, way=way, dry_run=True)
    assert (code, "from " in said) == (0, True)
    code, said = await run(model, where, ssh=server.command, way=way)
    assert code == 0, said
    assert "verified" in said
    assert content_of(final) == content_of(model)
    assert not part.exists()
    server.left_bytes = 100_000
    code, said = await run(model, where, ssh=server.command, way=way)
    assert (code, "there already" in said) == (0, True)


@needs_ssh
@pytest.mark.parametrize("way", WAYS)
async def test_a_part_of_another_file_does_not_survive(
    server: SshServer, model: Path, tmp_path: Path, way: Way
) -> None:
    folder, where = place(tmp_path)
    folder.mkdir()
    (folder / f".{model.name}.part").write_bytes(bytes(1_000_000))
    (folder / model.name).write_bytes(bytes(3_000_000))  # of the right size, and wrong
    code, said = await run(model, where, ssh=server.command, way=way)
    assert code == 0, said
    assert content_of(folder / model.name) == content_of(model)


@needs_ssh
async def test_one_place_that_fails_does_not_stop_the_others(
    server: SshServer, model: Path, tmp_path: Path
) -> None:
    _, where = place(tmp_path)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder", encoding="utf-8")
    code, said = await run(
        model, where, f"root@127.0.0.1:{blocked}", str(tmp_path / "here"), ssh=server.command
    )
    assert code == 1
    assert said.count("verified") == 2
    assert said.count("FAILED") == 1
    assert content_of(tmp_path / "here" / model.name) == content_of(model)


async def test_a_dry_run_changes_nothing(model: Path, tmp_path: Path) -> None:
    code, said = await run(model, str(tmp_path / "there"), dry_run=True)
    assert code == 0
    assert "would copy 2.9 MiB" in said
    assert not (tmp_path / "there").exists()


async def test_progress_counts_the_bytes(model: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    await send(model, destination_of(str(tmp_path / "there")), "pipe", seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 3_000_000


def test_a_model_is_all_of_its_parts_and_a_folder_its_files(tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{at}-of-00002.gguf" for at in (1, 2)]
    parts[0].touch()
    with pytest.raises(ConfigError, match="00002-of-00002"):
        files_of(parts[0])
    parts[1].touch()
    assert files_of(parts[1]) == parts
    (tmp_path / "sub").mkdir()
    assert files_of(tmp_path) == parts
    with pytest.raises(ConfigError, match="There is no"):
        files_of(tmp_path / "sub")


def test_what_cannot_be_looked_at_is_said(tmp_path: Path) -> None:
    """A name that is too long is refused as a forbidden folder is, to root as well."""
    long = "x" * 300
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "model.gguf").symlink_to(long)
    for source in (tmp_path / long, tmp_path / long / "model.gguf", folder, folder / "model.gguf"):
        with pytest.raises(ConfigError, match="cannot be read: File name too long") as caught:
            files_of(source)
        assert "this user may read" in caught.value.remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path = folder / "model.gguf"
    path.touch()
    for forbidden, mode in ((path, 0), (folder, 0), (folder, 0o400)):
        forbidden.chmod(mode)
        for source in (path, folder):
            with pytest.raises(ConfigError, match="cannot be read: Permission denied"):
                files_of(source)
        forbidden.chmod(0o700)


@pytest.mark.parametrize("text", [":/x", "-oProxyCommand=x:/y", "host:"])
def test_what_is_no_place_is_said(text: str) -> None:
    with pytest.raises(ConfigError, match="is no place"):
        destination_of(text)


@pytest.mark.parametrize(
    ("said", "folder"), [("~", "."), ("~/models", "./models"), ("models", "models"), ("/~", "/~")]
)
def test_home_is_where_scripts_begin(said: str, folder: str) -> None:
    assert destination_of(f"ann@host:{said}").folder == folder


def test_the_home_of_others_is_not_known() -> None:
    with pytest.raises(ConfigError, match="names a home that is not known"):
        destination_of("ann@host:~bob/models")


async def test_nowhere_is_an_error(model: Path) -> None:
    with pytest.raises(ConfigError, match="no place to copy to"):
        await run(model)
