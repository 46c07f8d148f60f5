"""Between a dispatcher and the process of one job: a socket pair, and a line of JSON for each event or effect."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

from penstock.dispatcher.events import Began, CancelJob, JobEnded, Listens, SlotsAnswer, SlotsWanted

FromJob = Began | Listens | SlotsWanted | JobEnded
"""What the process of a job says."""
ToJob = SlotsAnswer | CancelJob
"""What it is told."""

Sent = TypeVar("Sent")
Received = TypeVar("Received")


class Link(Generic[Sent, Received]):
    """One end. Any thread may send; one receives."""

    def __init__(self, connection: socket.socket, received: type[Received]) -> None:
        self._connection = connection
        self._decoder = msgspec.json.Decoder(received)
        self._lock = threading.Lock()

    def send(self, message: Sent) -> None:
        """Does nothing if the other end is gone: it is told of that by the end of its process."""
        data = msgspec.json.encode(message) + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall(data)

    def received(self) -> Iterator[Received]:
        """What the other end sends, until it is gone."""
        with contextlib.suppress(OSError), self._connection.makefile("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    # It was cut off by the end of the process.
                    return
                yield self._decoder.decode(line)

    def close(self) -> None:
        """The other end finds this one gone."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def job_end(connection: socket.socket) -> Link[FromJob, ToJob]:
    """The end of the job's process."""
    return Link(connection, ToJob)  # type: ignore[arg-type]


def dispatcher_end(connection: socket.socket) -> Link[ToJob, FromJob]:
    """The end of the dispatcher."""
    return Link(connection, FromJob)  # type: ignore[arg-type]


Receive = Callable[[FromJob], object]
