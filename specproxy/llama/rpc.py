"""Whether a worker can be used, found out before libllama is asked: it aborts where it cannot.

The handshake of ggml's RPC (ggml/src/ggml-rpc): the client says HELLO, the worker answers with its
protocol version. A worker serves one client at a time; the next waits in its listen queue.

Invariant: a worker survives every check. It must never send to a connection that was closed in the
ordinary way, for that ends it (SIGPIPE): a check that got its answer closes only then, and one
that gave up waiting resets the connection, so that the worker finds it broken before it answers.
"""

import contextlib
import functools
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from specproxy.errors import ConfigError, PoolError, SetupError
from specproxy.llama.ggml import load_ggml

_HELLO = 14
_CAPABILITIES = bytes(24)
"""All zero: plain TCP, no RDMA."""
_ANSWER = struct.Struct("<Q4B24x")
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_ANNOUNCE = "from specproxy.llama.rpc import announce; announce()"
_ANNOUNCE_TIMEOUT_S = 60.0


class RpcVersion(NamedTuple):
    """Version of the RPC protocol; major must be equal, a worker's minor may be lower."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def check_worker(endpoint: str, timeout_s: float) -> RpcVersion:
    """Greet the worker at `endpoint` and leave.

    Raises:
        ConfigError: what is no `host:port`, or whose host cannot be resolved.
        PoolError: nobody listens there, no answer in time (busy, or no worker), or a protocol
            that the loaded libllama does not speak.
        SetupError: the loaded libllama has no RPC.
    """
    ours = library_version()
    theirs = greet(endpoint, timeout_s)
    if theirs.major != ours.major or theirs.minor > ours.minor:
        raise PoolError(
            f"The worker at {endpoint} speaks RPC {theirs}, this llama.cpp speaks {ours}.",
            remedy="Run the same version of llama.cpp on all machines of the pool.",
        )
    return theirs


def greet(endpoint: str, timeout_s: float) -> RpcVersion:
    """The worker's protocol version, whatever it is. Raises as `check_worker`."""
    with _connection(endpoint, timeout_s) as connection:
        answer = b""
        try:
            connection.sendall(struct.pack("<BQ", _HELLO, len(_CAPABILITIES)) + _CAPABILITIES)
            while len(answer) < _ANSWER.size:
                part = connection.recv(_ANSWER.size - len(answer))
                if not part:
                    break
                answer += part
        except TimeoutError as error:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            raise PoolError(
                f"The worker at {endpoint} did not answer within {timeout_s:g} s.",
                remedy="A worker serves one client at a time: end the other one (a llama-server or "
                "coordinator that uses it), or check that an RPC worker listens there.",
            ) from error
        except OSError:
            answer = b""
    size, *version = _ANSWER.unpack(answer) if len(answer) == _ANSWER.size else (0,)
    if size != _ANSWER.size - 8:
        raise PoolError(
            f"What listens at {endpoint} is no RPC worker, or one of an old llama.cpp.",
            remedy="Check the port, and run the same version of llama.cpp on all machines.",
        )
    return RpcVersion(*version[:3])


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of `host:port`.

    Raises:
        ConfigError: it is none.
    """
    host, _, port = endpoint.partition(":")
    if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(
            f"{endpoint!r} is no worker's address.",
            remedy="Write host:port, for instance 192.168.1.20:50052; llama.cpp's RPC knows IPv4 "
            "only.",
        )
    return host, int(port)


@functools.cache
def library_version() -> RpcVersion:
    """The protocol that the loaded libllama speaks.

    It says so only on its standard output when it starts a server, so a child process starts one
    at an address that is none.

    Raises:
        SetupError: it has no RPC.
    """
    command = [sys.executable, "-c", _ANNOUNCE]
    child = subprocess.run(
        command, capture_output=True, text=True, timeout=_ANNOUNCE_TIMEOUT_S, check=False
    )
    found = re.search(r"RPC server v(\d+)\.(\d+)\.(\d+)", child.stdout)
    if found is None:
        reason = child.stderr.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        raise SetupError(f"libllama's RPC version could not be found out: {reason[0]}")
    return RpcVersion(*map(int, found.groups()))


def announce() -> None:
    """In a process of its own: let libllama print its RPC version."""
    ggml = load_ggml()
    ggml.start_rpc_server("nowhere", None, 1, [ggml.dev_by_type(0)])


@contextlib.contextmanager
def _connection(endpoint: str, timeout_s: float) -> Iterator[socket.socket]:
    host, port = split_endpoint(endpoint)
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, socket.AF_INET, socket.SOCK_STREAM
        )
    except OSError as error:
        raise ConfigError(
            f"The worker's host {host} cannot be resolved: {error}.",
            remedy="Check its name, or write its IPv4 address.",
        ) from error
    with socket.socket(family, kind, protocol) as connection:
        connection.settimeout(timeout_s)
        try:
            connection.connect(address)
        except OSError as error:
            raise PoolError(
                f"No worker can be reached at {endpoint}: {error}.",
                remedy="Start it there with `specproxy worker`, and check firewalls between.",
            ) from error
        yield connection
