"""A slot's end of the control plane: a thread that owns the socket, sends heartbeats and wakes the slot.

Heartbeats have a thread of their own: a slot that is blocked by back pressure, or by a user's function, is alive.
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

# The client's end of a connection to a job's control port.


def dealer(context: zmq.Context[zmq.Socket[bytes]], address: ControlAddress, linger_ms: int) -> zmq.Socket[bytes]:
    """A socket that is connected with the port, by the job's keys.

    `linger_ms`: how long what was not sent is still tried when the socket is closed.
    """
    socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    socket.curve_serverkey = address.server_public
    socket.curve_publickey = address.client_public
    socket.curve_secretkey = address.client_secret
    socket.linger = linger_ms
    socket.connect(address.endpoint)
    return socket


_OUTGOING = "inproc://outgoing"
_BESIDE = "inproc://beside"
_LINGER_MS = 2_000
_TURN = 64
"""Messages each way before the other way's turn."""


class ControlClient:
    """Connects to the job master. Messages from it gather in `received`; `on_message` is called for each.

    `heartbeat` is given the number of messages that were sent before it, heartbeats not counted. `on_failure` is called
    if one can't be made: the slot can be reached nevertheless, and says why it fails.
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
        """When each of them has arrived, by the monotonic clock."""
        self._on_message = on_message
        self._heartbeat = heartbeat
        self._on_failure = on_failure
        self._interval_ms = interval_ms
        self._context = zmq.Context()
        self._outgoing = self._context.socket(zmq.PUSH)
        self._outgoing.bind(_OUTGOING)
        self._address = address
        self._sent = 0
        """Messages of the slot that the socket was given, or that wait for room in it."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="penstock-control", daemon=True)
        self._thread.start()

    def send(self, message: FromSlot) -> None:
        """Send to the job master. Blocks while a thousand messages are queued: that is the back pressure on results."""
        self._outgoing.send(encode(message))

    def send_beside(self, message: FromSlot) -> None:
        """Send, from a thread that is not the slot's."""
        with self._context.socket(zmq.PUSH) as socket:
            socket.linger = _LINGER_MS
            socket.connect(_BESIDE)
            socket.send(encode(message))

    def close(self) -> None:
        """Send what is queued, then close."""
        self._closing.set()
        with contextlib.suppress(zmq.Again):  # full: then the thread wakes up anyway
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
        incoming.bind(_BESIDE)
        poller = zmq.Poller()
        interval_s = self._interval_ms / 1000
        heartbeat_at = time.monotonic() + interval_s
        unsent: deque[bytes] = deque()
        """Messages for which the socket has no room: at most one of the slot's, and a heartbeat."""
        was_full = None
        while not self._closing.is_set():
            if (is_full := bool(unsent)) is not was_full:
                # While the socket is full nothing is taken from the slot, which waits then. What comes in is received.
                poller.register(socket, zmq.POLLIN | zmq.POLLOUT if is_full else zmq.POLLIN)
                poller.register(incoming, 0 if is_full else zmq.POLLIN)
                was_full = is_full
            ready = dict(poller.poll(max(0, round((heartbeat_at - time.monotonic()) * 1000))))
            if ready.get(socket, 0) & zmq.POLLIN:
                self._receive(socket)
            self._forward(incoming, socket, unsent)
            # By the clock, not when the poll times out: a slot that sends all the time must report its counters, too.
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
        """Send messages of the slot, in order, for one turn: one that sends all the time must hear and be heard."""
        if not _send(unsent, socket):
            return
        for message in itertools.islice(_queued(incoming), _TURN):
            self._sent += 1
            unsent.append(message)
            if not _send(unsent, socket):
                return

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
        for _ in range(_TURN):
            try:
                message = decode_from_job_master(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            # Before the message: who finds that finds its time, too.
            self.arrived_ns.append(time.monotonic_ns())
            self.received.append(message)
            self._on_message(message)


def _send(unsent: deque[bytes], socket: zmq.Socket[bytes]) -> bool:
    """Send what has not been sent. False: the socket has no room for all of it."""
    while unsent:
        try:
            socket.send(unsent[0], zmq.NOBLOCK)
        except zmq.Again:
            return False
        unsent.popleft()
    return True


def _queued(incoming: zmq.Socket[bytes]) -> Iterator[bytes]:
    """The messages of the slot that are queued now, and those that come meanwhile."""
    while True:
        try:
            message = incoming.recv(zmq.NOBLOCK)
        except zmq.Again:
            return
        # An empty one only wakes the thread.
        if message:
            yield message
