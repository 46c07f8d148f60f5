"""Serve the JobMaster's end of the control plane: one socket for all slots of a job, owned by a thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import zmq
from zmq.auth.thread import ThreadAuthenticator

from penstock.common.functions.user_calls import RAISED
from penstock.common.job_threads import start_thread
from penstock.engine.rpc.keys import ControlAddress, make_keys
from penstock.engine.rpc.messages import FromJobMaster, ToJobMaster, decode_to_job_master, encode


class OnlyClient:
    """Admit only clients with the job's own key. ZeroMQ calls `callback`."""

    def __init__(self, client_public: bytes) -> None:
        self._client_public = client_public

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._client_public


_log = logging.getLogger(__name__)
_TICK_MS = 50
_LAST_ANSWERS_MS = 200


class ControlServer:
    """Receive messages of slots and send to them. The server's thread calls `on_message` and `on_tick`.

    Only that thread may call `send`; other threads submit calls with `call_soon`.
    """

    def __init__(self, host: str) -> None:
        keys = make_keys()
        self._context = zmq.Context()
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(domain="*", credentials_provider=OnlyClient(keys.client_public))
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.curve_server = True
        self._socket.curve_publickey = keys.server_public
        self._socket.curve_secretkey = keys.server_secret
        self._socket.linger = 0
        self._socket.rcvhwm = 10_000
        # A ROUTER silently drops messages above its high-water mark: a split that was assigned would never be read.
        self._socket.sndhwm = 0
        port = self._socket.bind_to_random_port(f"tcp://{host}")
        self.address = ControlAddress(
            endpoint=f"tcp://{host}:{port}",
            server_public=keys.server_public,
            client_public=keys.client_public,
            client_secret=keys.client_secret,
        )
        self._inbox = self._context.socket(zmq.PULL)
        self._inbox.bind("inproc://calls")
        self._lock = threading.Lock()
        self._calls: list[Callable[[], None]] = []
        self._wake_up = self._context.socket(zmq.PUSH)
        """Shared by all threads under the lock: a context has only about a thousand sockets."""
        self._wake_up.linger = 0
        self._wake_up.connect("inproc://calls")
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(
        self,
        on_message: Callable[[bytes, ToJobMaster], None],
        on_tick: Callable[[], None],
        on_failure: Callable[[BaseException], object] = lambda error: None,
    ) -> None:
        """Start serving. `on_message` gets the slot's identity, which `send` expects.

        If an error ends the server's thread, the thread calls `on_failure` last.
        """
        self._on_message = on_message
        self._on_tick = on_tick
        self._thread = start_thread("penstock-control", self._serve, on_failure)

    def send(self, identity: bytes, message: FromJobMaster) -> None:
        """Send to one slot."""
        self._socket.send_multipart([identity, encode(message)])

    def call(self, call: Callable[[], None]) -> None:
        """Make a call on the server's thread: immediately if this is that thread, otherwise soon."""
        if threading.current_thread() is self._thread:
            call()
        else:
            self.call_soon(call)

    def call_soon(self, call: Callable[[], None]) -> bool:
        """Let the server's thread make a call. Return False, and make no call, if the server has stopped."""
        with self._lock:
            if self._stopping:
                return False
            # One wake-up for all waiting calls is enough: the server's thread receives it before it takes the list, so
            # a call that joins others is taken with them, and the first call of a new list sends a new wake-up.
            if not self._calls:
                self._wake_up.send(b"", zmq.NOBLOCK)
            self._calls.append(call)
            return True

    def stop(self) -> None:
        """Stop serving and close the port. The server's own thread may call this."""
        with self._lock:
            self._stopping = True
        if self._thread is None:
            self._close()
        elif self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._inbox, zmq.POLLIN)
        ticked_s = 0.0
        try:
            while not self._stopping:
                ready = dict(poller.poll(_TICK_MS))
                if self._inbox in ready:
                    self._inbox.recv()
                    # Only the calls that wait now: calls that they submit run after the messages.
                    with self._lock:
                        calls, self._calls = self._calls, []
                    for call in calls:
                        _guarded(call)
                if self._socket in ready:
                    _guarded(self._receive)
                # Limit ticks while messages arrive one by one, a thousand a second: they would cost as much as the
                # messages, whose handlers look at the clock anyway.
                now_s = time.monotonic()
                if not ready or now_s - ticked_s >= _TICK_MS / 1000:
                    ticked_s = now_s
                    _guarded(self._on_tick)
        finally:
            self._close()

    def _receive(self) -> None:
        # Limited, so that a flood of messages cannot starve ticks.
        for _ in range(1000):
            try:
                identity, data = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._on_message(identity, decode_to_job_master(data))
            if self._stopping:
                return

    def _close(self) -> None:
        with self._lock:
            # From here no other thread uses the socket, even if an error ended the server's thread.
            self._stopping = True
            self._wake_up.close()
        # The last answers may take this long to reach their callers.
        self._socket.close(linger=_LAST_ANSWERS_MS)
        self._inbox.close()
        self._authenticator.stop()
        self._context.term()


def _guarded(call: Callable[[], object]) -> None:
    """Log errors instead of letting them end the thread: the job would hang, and could not even be canceled."""
    try:
        call()
    except RAISED:
        _log.exception("an event of a job could not be handled")
