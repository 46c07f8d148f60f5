"""Connect a slot to the control plane: a thread owns the socket, sends heartbeats and wakes the slot.

Heartbeats have a thread of their own, because a slot that waits for room or for a user's function is alive.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

import zmq

from penstock.common.functions.user_calls import RAISED
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.messages import FromJobMaster, FromSlot, decode_from_job_master, encode


def dealer(context: zmq.Context[zmq.Socket[bytes]], address: ControlAddress, linger_ms: int) -> zmq.Socket[bytes]:
    """Return a socket connected to a job's control port with the job's keys.

    A closed socket tries to send its remaining messages for another `linger_ms`.
    """
    socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    socket.curve_serverkey = address.server_public
    socket.curve_publickey = address.client_public
    socket.curve_secretkey = address.client_secret
    socket.linger = linger_ms
    socket.connect(address.endpoint)
    return socket


_OUTGOING = "inproc://outgoing"
_FROM_OTHER_THREADS = "inproc://other-threads"
_LINGER_MS = 2_000
_MESSAGES_PER_TURN = 64
"""Messages in one direction before the other direction gets its turn."""


class ControlClient:
    """Connect to the JobMaster. Append its messages to `received` and call `on_message` for each.

    `heartbeat` gets the number of messages sent before it, heartbeats not counted. `on_failure` gets the error if
    `heartbeat` raises: the connection stays open, and the slot can report why it fails.
    """

    def __init__(
        self,
        address: ControlAddress,
        on_message: Callable[[FromJobMaster], None],
        heartbeat: Callable[[int], FromSlot],
        interval_ms: int,
        on_failure: Callable[[BaseException], object] = lambda error: None,
    ) -> None:
        self.received: deque[FromJobMaster] = deque()
        self.arrived_ns: deque[int] = deque()
        """The arrival times of `received`, by the monotonic clock."""
        self._on_message = on_message
        self._heartbeat = heartbeat
        self._on_failure = on_failure
        self._interval_ms = interval_ms
        self._context = zmq.Context()
        self._outgoing = self._context.socket(zmq.PUSH)
        self._outgoing.bind(_OUTGOING)
        self._address = address
        self._sent = 0
        """Number of the slot's messages that were passed to the socket or wait for room in it."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="penstock-control", daemon=True)
        self._thread.start()

    def send(self, message: FromSlot) -> None:
        """Send to the JobMaster. Block while a thousand messages are queued, which puts back pressure on results."""
        self._outgoing.send(encode(message))

    def send_from_other_thread(self, message: FromSlot) -> None:
        """Send from any thread but the slot's."""
        with self._context.socket(zmq.PUSH) as socket:
            socket.linger = _LINGER_MS
            socket.connect(_FROM_OTHER_THREADS)
            socket.send(encode(message))

    def close(self) -> None:
        """Send the queued messages, then close."""
        self._closing.set()
        with contextlib.suppress(zmq.Again):  # a full queue wakes the thread anyway
            self._outgoing.send(b"", zmq.NOBLOCK)
        self._thread.join(timeout=5)
        self._outgoing.close(linger=0)
        if not self._thread.is_alive():
            # Waits until pending messages are sent, at most the linger time of the socket.
            self._context.term()

    def _serve(self) -> None:
        socket = dealer(self._context, self._address, linger_ms=_LINGER_MS)
        incoming = self._context.socket(zmq.PULL)
        incoming.connect(_OUTGOING)
        incoming.bind(_FROM_OTHER_THREADS)
        poller = zmq.Poller()
        interval_s = self._interval_ms / 1000
        heartbeat_at = time.monotonic() + interval_s
        unsent: deque[bytes] = deque()
        """Messages that do not fit into the socket: at most one of the slot and one heartbeat."""
        was_full = None
        while not self._closing.is_set():
            if (is_full := bool(unsent)) is not was_full:
                # While the socket is full, accept no message of the slot, which makes it wait, but keep receiving.
                poller.register(socket, zmq.POLLIN | zmq.POLLOUT if is_full else zmq.POLLIN)
                poller.register(incoming, 0 if is_full else zmq.POLLIN)
                was_full = is_full
            ready = dict(poller.poll(max(0, round((heartbeat_at - time.monotonic()) * 1000))))
            if ready.get(socket, 0) & zmq.POLLIN:
                self._receive(socket)
            self._forward(incoming, socket, unsent)
            # By the clock, not when the poll times out: a slot that always sends must report its counters, too.
            if time.monotonic() >= heartbeat_at:
                heartbeat_at = time.monotonic() + interval_s
                if len(unsent) < 2:
                    self._beat(unsent)
                    _send(unsent, socket)
        for message in itertools.chain(unsent, _queued(incoming)):
            socket.send(message)
        incoming.close()
        socket.close()

    def _beat(self, unsent: deque[bytes]) -> None:
        try:
            unsent.append(encode(self._heartbeat(self._sent)))
        except RAISED as error:
            self._on_failure(error)

    def _forward(self, incoming: zmq.Socket[bytes], socket: zmq.Socket[bytes], unsent: deque[bytes]) -> None:
        """Send messages of the slot in order, for one turn, so that a slot that always sends also receives."""
        if not _send(unsent, socket):
            return
        for message in itertools.islice(_queued(incoming), _MESSAGES_PER_TURN):
            self._sent += 1
            unsent.append(message)
            if not _send(unsent, socket):
                return

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
        for _ in range(_MESSAGES_PER_TURN):
            try:
                message = decode_from_job_master(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            # Append the time first: the slot may read the message as soon as it is there, and its time with it.
            self.arrived_ns.append(time.monotonic_ns())
            self.received.append(message)
            self._on_message(message)


def _send(unsent: deque[bytes], socket: zmq.Socket[bytes]) -> bool:
    """Send the messages that wait. Return False if the socket has no room for all of them."""
    while unsent:
        try:
            socket.send(unsent[0], zmq.NOBLOCK)
        except zmq.Again:
            return False
        unsent.popleft()
    return True


def _queued(incoming: zmq.Socket[bytes]) -> Iterator[bytes]:
    """Yield the slot's queued messages, and those that arrive in the meantime."""
    while True:
        try:
            message = incoming.recv(zmq.NOBLOCK)
        except zmq.Again:
            return
        # An empty message only wakes the thread.
        if message:
            yield message
