"""A slot's end of the control plane: a thread that owns the socket, sends heartbeats and wakes the slot.

Heartbeats have this thread to themselves: a slot that is blocked by back pressure, or by a user's function, is alive.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

import zmq

from penstock.rpc.keys import ControlAddress
from penstock.rpc.messages import FromJobMaster, FromSlot, decode_from_job_master, encoder


class ControlClient:
    """Connects to the job master. Messages from it gather in `received`; `on_message` is called for each."""

    def __init__(
        self,
        address: ControlAddress,
        on_message: Callable[[FromJobMaster], None],
        heartbeat: Callable[[], FromSlot],
        interval_ms: int,
    ) -> None:
        self.received: deque[FromJobMaster] = deque()
        self._on_message = on_message
        self._heartbeat = heartbeat
        self._interval_ms = interval_ms
        self._context = zmq.Context()
        self._outgoing = self._context.socket(zmq.PUSH)
        self._outgoing.bind("inproc://outgoing")
        self._address = address
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="penstock-control", daemon=True)
        self._thread.start()

    def send(self, message: FromSlot) -> None:
        """Send to the job master. Waits when a thousand messages wait already: results are held back that way."""
        self._outgoing.send(encoder.encode(message))

    def close(self) -> None:
        """Send what waits, then close."""
        self._closing.set()
        with contextlib.suppress(zmq.Again):  # full: then it has enough to wake up for
            self._outgoing.send(b"", zmq.NOBLOCK)
        self._thread.join(timeout=5)
        self._outgoing.close(linger=0)
        if not self._thread.is_alive():
            # Waits for what is on its way, no longer than the socket lingers.
            self._context.term()

    def _serve(self) -> None:
        socket = self._context.socket(zmq.DEALER)
        socket.curve_serverkey = self._address.server_public
        socket.curve_publickey = self._address.client_public
        socket.curve_secretkey = self._address.client_secret
        socket.linger = 2000
        socket.connect(self._address.endpoint)
        incoming = self._context.socket(zmq.PULL)
        incoming.connect("inproc://outgoing")
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(incoming, zmq.POLLIN)
        interval_s = self._interval_ms / 1000
        heartbeat_at = time.monotonic() + interval_s
        while not self._closing.is_set():
            ready = dict(poller.poll(max(0, round((heartbeat_at - time.monotonic()) * 1000))))
            if socket in ready:
                message = decode_from_job_master(socket.recv())
                self.received.append(message)
                self._on_message(message)
            if incoming in ready:
                self._forward(incoming, socket)
            # By the clock: a slot that always has something to say has counters to report all the same.
            if time.monotonic() >= heartbeat_at:
                heartbeat_at = time.monotonic() + interval_s
                socket.send(encoder.encode(self._heartbeat()))
        self._forward(incoming, socket)
        incoming.close()
        socket.close()

    @staticmethod
    def _forward(incoming: zmq.Socket[bytes], socket: zmq.Socket[bytes]) -> None:
        while True:
            try:
                message = incoming.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            if message:
                socket.send(message)
