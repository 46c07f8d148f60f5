"""Send messages between any two slots of a job, outside the rows that pass through Spark.

Each receiver has a socket with a thread that always receives, so a sender does not wait for the receiver's task.
Messages of one sender keep their order. Both sides hold the keys of the job's control plane; a slot with other keys is
refused.
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
_GIVE_UP_POLL_MS = 100
_CLOSE_CHECK_MS = 50


class SlotInbox:
    """Receive messages of other slots. The thread that calls `on_message` must not wait for the slot.

    `on_failure` gets the error that ended the thread; nothing is received after it.
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
        self._socket.rcvtimeo = _CLOSE_CHECK_MS
        host = _own_host(keys.endpoint)
        port = self._socket.bind_to_random_port(f"tcp://{host}")
        self.address = f"tcp://{host}:{port}"
        """The address that other slots send to."""
        self._closing = threading.Event()
        self._thread = start_thread("penstock-slot-channel", self._serve, on_failure)

    def close(self) -> None:
        """Stop receiving."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    message = self._socket.recv()
                except zmq.Again:
                    continue
                self._on_message(message)
        finally:
            self._socket.close()
            self._authenticator.stop()
            self._context.term()


class SlotOutlets:
    """Send to other slots, from one thread. The first message to an address connects to it."""

    def __init__(self, keys: ControlAddress) -> None:
        self._keys = keys
        self._context = zmq.Context()
        self._sockets: dict[str, zmq.Socket[bytes]] = {}

    def send(self, address: str, message: bytes, give_up: Callable[[], bool]) -> bool:
        """Send, and wait while the receiver has no room, until `give_up` returns true. Return whether it was sent."""
        outlet = self._outlet(address)
        while True:
            with contextlib.suppress(zmq.Again):
                outlet.send(message, zmq.NOBLOCK)
                return True
            while not outlet.poll(_GIVE_UP_POLL_MS, zmq.POLLOUT):
                if give_up():
                    return False

    def offer(self, address: str, message: bytes) -> None:
        """Send if the receiver has room now, otherwise drop the message."""
        with contextlib.suppress(zmq.Again):
            self._outlet(address).send(message, zmq.NOBLOCK)

    def close(self) -> None:
        """Close the connections and drop unsent messages, which are no longer needed."""
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
    """Return the address with which this machine reaches the JobMaster: other machines of the job can reach it."""
    parts = urlsplit(endpoint)
    assert parts.hostname is not None and parts.port is not None, endpoint
    family, kind, _, _, address = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        # Connecting a datagram socket sends nothing; it only selects the route.
        probe.connect(address)
        host = str(probe.getsockname()[0])
    return f"[{host}]" if ":" in host else host
