"""Text from a socket, in jobs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.jobs import STREAMING, collect, environment, no_worker_left
from tests.spark.test_lost_workers import killed, killing
from tests.spark.test_recovery import settings

pytestmark = pytest.mark.spark


@contextlib.contextmanager
def serving(*texts: str) -> Iterator[int]:
    """A server, and its port: sends each connection one of the texts. The last one is closed, the others wait."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            for text in texts:
                connections.append(listening.accept()[0])
                connections[-1].sendall(text.encode())
            connections[-1].close()

        connections: list[socket.socket] = []
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        for connection in connections:
            connection.close()


def numbered(start: int, stop: int) -> str:
    return "".join(f"{number}\n" for number in range(start, stop))


def test_until_the_server_closes() -> None:
    """The job would never end, or end before the last line."""
    with serving(numbered(0, 5_000)) as port:
        env = environment(STREAMING, 2)
        counted = env.socket_text_stream("127.0.0.1", port).map(int).key_by(lambda n: n % 2).sum()
        assert max(collect(counted)) == sum(range(1, 5_000, 2))
    no_worker_left()


def test_a_worker_killed_when_the_server_can_not_send_again(tmp_path: Path) -> None:
    """All that was received since the last checkpoint would be lost, though the job says exactly once."""
    (deaths := tmp_path / "deaths").mkdir()
    with serving(numbered(0, 500), numbered(500, 600)) as port:
        env = environment(STREAMING, 1, settings(tmp_path))
        numbers = env.socket_text_stream("127.0.0.1", port).map(int)
        # The last line is there only when a checkpoint holds all of them.
        assert sorted(collect(numbers.map(killing(deaths, "map", 499)))) == [*range(600)]
    assert killed(deaths) == ["map"]
