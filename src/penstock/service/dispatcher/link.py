"""The link between a dispatcher and the process of one job: a socket pair, with a line of JSON per event or effect."""

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
    AcceptsCommands,
    Began,
    CancelJob,
    EndRecorded,
    JobAboutToEnd,
    JobEnded,
    Leads,
    SlotsAnswer,
    SlotsWanted,
)

FromJob = Began | AcceptsCommands | SlotsWanted | JobAboutToEnd | JobEnded
"""Events that the process of a job sends."""
ToJob = SlotsAnswer | CancelJob | EndRecorded | Leads
"""Effects that it receives."""

Sent = TypeVar("Sent")
Received = TypeVar("Received")


class Link(Generic[Sent, Received]):
    """An end of the link. Any thread may send; one receives."""

    def __init__(self, connection: socket.socket, received: type[Received]) -> None:
        self._connection = connection
        self._decoder = json_decoder(received)
        self._lock = threading.Lock()

    def send(self, message: Sent) -> None:
        """Send a message. Does nothing if the other end is gone, as the end of its process is reported separately."""
        data = msgspec.json.encode(message) + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall(data)

    def send_unless_blocked(self, message: Sent) -> None:
        """Send only if the other end has read most of what was sent: a suspended one must not block the sender."""
        if self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(OSError, ValueError):
                    if select.select([], [self._connection], [], 0)[1]:
                        self._connection.sendall(msgspec.json.encode(message) + b"\n")
            finally:
                self._lock.release()

    def received(self) -> Iterator[Received]:
        """Yield what the other end sends, until it is gone."""
        with contextlib.suppress(OSError), self._connection.makefile("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    # The end of the process has cut the line off.
                    return
                yield self._decoder.decode(line)

    def close(self) -> None:
        """Close this end, which the other end notices."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def job_end(connection: socket.socket) -> Link[FromJob, ToJob]:
    """Return the end of the job's process."""
    return Link(connection, ToJob)  # type: ignore[arg-type]


def dispatcher_end(connection: socket.socket) -> Link[ToJob, FromJob]:
    """Return the end of the dispatcher."""
    return Link(connection, FromJob)  # type: ignore[arg-type]


Receive = Callable[[FromJob], object]
