"""Query keyed state of a running job's tasks from another process of the user, over the job's control port.

Many queries may be in flight; each answer has the number of its query. HTTP requests would cost both ends several times
the CPU.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

import msgspec
import zmq

from penstock.common.errors import JobError
from penstock.engine.rpc.client import dealer
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand, decode_from_job_master, encode

_POLL_MS = 500


class StateConnection:
    """Send queries of any thread. `is_running`: whether the job still runs; pending queries fail when it does not."""

    def __init__(self, address: ControlAddress, is_running: Callable[[], bool]) -> None:
        self._address = address
        self._is_running = is_running
        self._numbers = itertools.count()
        self._pending: dict[int, Future[ReadAnswer]] = {}
        self._unsent: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        """Started by the first query."""

    def _open(self) -> None:
        self._context = zmq.Context()
        self._inbox = self._context.socket(zmq.PULL)
        self._inbox.bind("inproc://queries")
        self._wake_up = self._context.socket(zmq.PUSH)
        """Shared by all threads under the lock."""
        self._wake_up.linger = 0
        self._wake_up.connect("inproc://queries")
        self._thread = threading.Thread(target=self._serve, name="penstock-state", daemon=True)
        self._thread.start()

    def query(self, command: ReadCommand) -> Future[ReadAnswer]:
        """Send a query, under a number of this connection. The future gets its answer, or a JobError.

        Raises OverflowError or TypeError if the query cannot be sent: other queries are not affected.
        """
        answer: Future[ReadAnswer] = Future()
        with self._lock:
            if self._closed:
                answer.set_exception(JobError("the job has ended, or the connection to it was closed"))
                return answer
            if self._thread is None:
                self._open()
            number = next(self._numbers)
            message = encode(msgspec.structs.replace(command, number=number))
            self._pending[number] = answer
            # One wake-up for all waiting queries is enough: the thread receives it before it takes them.
            if not self._unsent:
                self._wake_up.send(b"", zmq.NOBLOCK)
            self._unsent.append(message)
        return answer

    def close(self) -> None:
        """Close the connection. Pending queries fail."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._thread is None:
                return
            self._wake_up.send(b"", zmq.NOBLOCK)
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        socket = dealer(self._context, self._address, linger_ms=0)
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(self._inbox, zmq.POLLIN)
        try:
            while not self._closed:
                ready = dict(poller.poll(_POLL_MS))
                if self._inbox in ready:
                    self._inbox.recv()
                    self._send(socket)
                if socket in ready:
                    self._receive(socket)
                elif not ready and self._pending and not self._is_running():
                    break
        finally:
            self._end()
            socket.close()
            self._inbox.close()
            self._context.term()

    def _send(self, socket: zmq.Socket[bytes]) -> None:
        with self._lock:
            unsent = list(self._unsent)
            self._unsent.clear()
        for message in unsent:
            socket.send(message)

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
        while True:
            try:
                answer = decode_from_job_master(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            assert isinstance(answer, ReadAnswer)
            with self._lock:
                future = self._pending.pop(answer.number, None)
            if future is not None and future.set_running_or_notify_cancel():
                future.set_result(answer)

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            pending, self._pending = self._pending, {}
            self._wake_up.close()
        for future in pending.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(JobError("the job has ended without an answer"))
