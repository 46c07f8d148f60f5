"""Between a dispatcher and the process of one job: a socket pair, and a line of JSON for each event or effect."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import msgspec

from penstock.common.values.decoding import json_decoder
from penstock.service.dispatcher.events import (
    Began,
    CancelJob,
    EndRecorded,
    JobEnded,
    JobEnds,
    Leads,
    Listens,
    SlotsAnswer,
    SlotsWanted,
)

FromJob = Began | Listens | SlotsWanted | JobEnds | JobEnded
"""What the process of a job says."""
ToJob = SlotsAnswer | CancelJob | EndRecorded | Leads
"""What it is told."""

Sent = TypeVar("Sent")
Received = TypeVar("Received")


class Link(Generic[Sent, Received]):
    """One end. Any thread may send; one receives."""

    def __init__(self, connection: socket.socket, received: type[Received]) -> None:
        self._connection = connection
        self._decoder = json_decoder(received)
        self._lock = threading.Lock()

    def send(self, message: Sent) -> None:
        """Does nothing if the other end is gone: it is told of that by the end of its process."""
        data = msgspec.json.encode(message) + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall(data)

    def send_if_free(self, message: Sent) -> None:
        """The same, but only if the other end has read most of what was sent: if it is stopped, nobody waits for it."""
        if self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(OSError, ValueError):
                    if select.select([], [self._connection], [], 0)[1]:
                        self._connection.sendall(msgspec.json.encode(message) + b"\n")
            finally:
                self._lock.release()

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
