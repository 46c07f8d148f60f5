"""A connection to the control port of a job, by which other processes of the user ask its tasks for keyed state.

Many queries may be under way; each answer has the number of its query. A request over HTTP would cost both ends several
times the CPU.
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

_LOOK_MS = 500


class StateConnection:
    """Any thread may ask. `is_there`: whether the job still runs; without it no answer comes."""

    def __init__(self, address: ControlAddress, is_there: Callable[[], bool]) -> None:
        self._address = address
        self._is_there = is_there
        self._numbers = itertools.count()
        self._asked: dict[int, Future[ReadAnswer]] = {}
        self._unsent: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        """None: nothing has been asked yet."""

    def _open(self) -> None:
        self._context = zmq.Context()
        self._inbox = self._context.socket(zmq.PULL)
        self._inbox.bind("inproc://asked")
        self._wake_up = self._context.socket(zmq.PUSH)
        """Of all threads, used under the lock."""
        self._wake_up.linger = 0
        self._wake_up.connect("inproc://asked")
        self._thread = threading.Thread(target=self._serve, name="penstock-state", daemon=True)
        self._thread.start()

    def ask(self, command: ReadCommand) -> Future[ReadAnswer]:
        """Send a query, whose number does not count. The future is given its answer, or a JobError: there is none.

        Raises OverflowError or TypeError for what can't be sent, so that it ends nobody else's query.
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
            self._asked[number] = answer
            # One wake-up for all that wait: the thread receives it before it takes them.
            if not self._unsent:
                self._wake_up.send(b"", zmq.NOBLOCK)
            self._unsent.append(message)
        return answer

    def close(self) -> None:
        """What is not answered yet never will be."""
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
                ready = dict(poller.poll(_LOOK_MS))
                if self._inbox in ready:
                    self._inbox.recv()
                    self._send(socket)
                if socket in ready:
                    self._receive(socket)
                elif not ready and self._asked and not self._is_there():
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
                future = self._asked.pop(answer.number, None)
            if future is not None and future.set_running_or_notify_cancel():
                future.set_result(answer)

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            asked, self._asked = self._asked, {}
            self._wake_up.close()
        for future in asked.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(JobError("the job has ended without an answer"))
