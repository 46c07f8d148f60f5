"""The channel between slots: messages from any slot of a job to any other, beside the rows that go through Spark.

Each end that is to be reached has a socket of its own, with a thread that always receives: a sender never waits for
what the receiver does. Messages of one sender keep their order. Both sides hold the keys of the job's control plane; a
slot that has others is refused.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

import zmq
from zmq.auth.thread import ThreadAuthenticator

from penstock.common.job_threads import start_thread
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.server import OnlyClient

_IN_FLIGHT_MAX = 64
"""Messages in a sender's queue, and in a receiver's: a sender waits while both are full."""
_LOOK_MS = 100
_STOP_MS = 50


class SlotInbox:
    """The end of a slot that others send to. `on_message` is called by its thread, which must not wait for the slot.

    `on_failure` gets the error by which the thread has ended, after which nothing is received.
    """

    def __init__(
        self, keys: ControlAddress, on_message: Callable[[bytes], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        self._on_message = on_message
        self._context = zmq.Context()
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain="*", credentials_provider=OnlyClient(keys.client_public))
        self._socket = self._context.socket(zmq.PULL)
        self._socket.curve_server = True
        self._socket.curve_publickey = keys.client_public
        self._socket.curve_secretkey = keys.client_secret
        self._socket.linger = 0
        self._socket.rcvhwm = _IN_FLIGHT_MAX
        host = _own_host(keys.endpoint)
        port = self._socket.bind_to_random_port(f"tcp://{host}")
        self.address = f"tcp://{host}:{port}"
        """Where others send to."""
        self._closing = threading.Event()
        self._thread = start_thread("penstock-slot-channel", self._serve, on_failure)

    def close(self) -> None:
        """Receive nothing more."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        try:
            while not self._closing.is_set():
                if self._socket.poll(_STOP_MS):
                    self._on_message(self._socket.recv())
        finally:
            self._socket.close()
            self._authenticator.stop()
            self._context.term()


class SlotOutlets:
    """Sends to other slots. Belongs to one thread. A connection is made with the first message to an address."""

    def __init__(self, keys: ControlAddress) -> None:
        self._keys = keys
        self._context = zmq.Context()
        self._sockets: dict[str, zmq.Socket[bytes]] = {}

    def send(self, address: str, message: bytes, give_up: Callable[[], bool]) -> bool:
        """Send, and wait while the receiver has no room, unless `give_up` is true. False: it was not sent."""
        outlet = self._outlet(address)
        while True:
            with contextlib.suppress(zmq.Again):
                outlet.send(message, zmq.NOBLOCK)
                return True
            while not outlet.poll(_LOOK_MS, zmq.POLLOUT):
                if give_up():
                    return False

    def offer(self, address: str, message: bytes) -> None:
        """Send, unless the receiver has no room now: then the message is dropped."""
        with contextlib.suppress(zmq.Again):
            self._outlet(address).send(message, zmq.NOBLOCK)

    def close(self) -> None:
        """Drop what was not sent: it is not needed any more."""
        for outlet in self._sockets.values():
            outlet.close(linger=0)
        self._context.term()

    def _outlet(self, address: str) -> zmq.Socket[bytes]:
        outlet = self._sockets.get(address)
        if outlet is None:
            outlet = self._sockets[address] = self._connected(address)
        return outlet

    def _connected(self, address: str) -> zmq.Socket[bytes]:
        outlet = self._context.socket(zmq.PUSH)
        outlet.curve_serverkey = self._keys.client_public
        outlet.curve_publickey = self._keys.client_public
        outlet.curve_secretkey = self._keys.client_secret
        outlet.sndhwm = _IN_FLIGHT_MAX
        outlet.connect(address)
        return outlet


def _own_host(endpoint: str) -> str:
    """The address of this machine from which it reaches the job master: other machines of the job reach it there."""
    parts = urlsplit(endpoint)
    assert parts.hostname is not None and parts.port is not None, endpoint
    family, kind, _, _, address = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        # Sends nothing: it only chooses the way.
        probe.connect(address)
        host = str(probe.getsockname()[0])
    return f"[{host}]" if ":" in host else host
