"""A llama-server that somebody else started on this machine: its command line (Linux)."""

from pathlib import Path


def server_on_port(port: int) -> tuple[str, ...] | None:
    """The command line of this machine's llama-server with `--port PORT`; None: not seen."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
        except OSError:  # it has ended, or is not ours to see
            continue
        if Path(argv[0]).name == "llama-server" and _port(argv) == port:
            return tuple(argv)
    return None


def _port(argv: list[str]) -> int:
    if "--port" not in argv[:-1]:
        return 8080
    said = argv[argv.index("--port") + 1]
    return int(said) if said.isdecimal() else 0
