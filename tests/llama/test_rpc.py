"""Greeting workers: real ones survive it, and what is none is told apart."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from specproxy.errors import ConfigError, PoolError
from specproxy.llama.rpc import RpcVersion, check_worker, greet, library_version, split_endpoint
from specproxy.pool.processes import free_ports
from tests.llama.conftest import RunningWorker

PATIENCE_S = 30.0
IMPATIENCE_S = 0.3
HELLO = struct.pack("<BQ", 14, 24) + bytes(24)
ANSWER_BYTES = 36


@contextlib.contextmanager
def something_that_says(answer: bytes) -> Iterator[str]:
    """A listener that reads one request, says `answer` and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@contextlib.contextmanager
def a_client_of(worker: RunningWorker) -> Iterator[None]:
    with socket.create_connection(split_endpoint(worker.endpoint)) as connection:
        connection.sendall(HELLO)
        assert len(connection.recv(ANSWER_BYTES, socket.MSG_WAITALL)) == ANSWER_BYTES
        yield


@pytest.mark.real
def test_a_worker_tells_its_version_any_number_of_times(
    start_worker: Callable[[], RunningWorker],
) -> None:
    worker = start_worker()
    versions = {check_worker(worker.endpoint, PATIENCE_S) for _ in range(5)}
    assert versions == {library_version()}
    assert worker.alive


@pytest.mark.real
def test_a_busy_worker_is_told_and_survives_every_check(
    start_worker: Callable[[], RunningWorker],
) -> None:
    worker = start_worker()
    with a_client_of(worker):
        for _ in range(2):  # they wait in its queue, and it finds them there afterwards
            with pytest.raises(PoolError, match="did not answer within") as caught:
                check_worker(worker.endpoint, IMPATIENCE_S)
        assert "one client at a time" in caught.value.remedy
    assert check_worker(worker.endpoint, PATIENCE_S) == library_version()
    with a_client_of(worker):
        pass
    assert worker.alive


@pytest.mark.real
def test_another_protocol_is_refused_before_libllama_aborts() -> None:
    ours = library_version()
    for theirs, fits in (
        (RpcVersion(ours.major - 1, 9, 9), False),
        (RpcVersion(ours.major, ours.minor + 1, 0), False),
        (RpcVersion(ours.major, ours.minor, ours.patch + 1), True),
    ):
        with something_that_says(struct.pack("<Q4B24x", 28, *theirs, 0)) as endpoint:
            if fits:
                assert check_worker(endpoint, PATIENCE_S) == theirs
            else:
                with pytest.raises(PoolError, match=f"speaks RPC {theirs}.*speaks {ours}"):
                    check_worker(endpoint, PATIENCE_S)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"\x04\0\0\0\0\0\0\0"]
)
def test_what_is_no_worker_is_told(answer: bytes) -> None:
    with (
        something_that_says(answer) as endpoint,
        pytest.raises(PoolError, match="is no RPC worker"),
    ):
        greet(endpoint, PATIENCE_S)


def test_an_address_without_a_listener_is_told() -> None:
    (port,) = free_ports(1)
    with pytest.raises(PoolError, match=f"No worker can be reached at 127.0.0.1:{port}"):
        greet(f"127.0.0.1:{port}", PATIENCE_S)


def test_an_unknown_host_is_told() -> None:
    with pytest.raises(ConfigError, match=r"host nowhere\.invalid cannot be resolved"):
        greet("nowhere.invalid:50052", PATIENCE_S)


@pytest.mark.parametrize("endpoint", ["", "host", "host:", ":50052", "host:0", "host:99999", "::1"])
def test_an_endpoint_is_a_host_and_a_port(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="no worker's address"):
        split_endpoint(endpoint)
