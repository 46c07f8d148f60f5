"""A connection that is cut on its way, over real sockets."""

from __future__ import annotations

import contextlib
import socket
import threading

import msgspec
from tests.unit.engine.rpc.test_control import until

from penstock.engine.rpc.client import ControlClient
from penstock.engine.rpc.messages import FromSlot, Heartbeat, Register
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.task.events import RequestSplit


class Wire:
    """A way to the driver that can be cut: its connections end, and new ones are let through."""

    def __init__(self, endpoint: str) -> None:
        host, port = endpoint.removeprefix("tcp://").split(":")
        self._target = (host, int(port))
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self._ends += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)

    def cut(self) -> None:
        ends, self._ends = self._ends, []
        for end in ends:
            end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listener.close()
        self.cut()


def test_a_connection_that_was_cut_comes_back_as_another() -> None:
    """The job master would not know that messages may be lost: it knows a connection by its identity."""
    arrived: dict[bytes, list[FromSlot]] = {}
    server = ControlServer("127.0.0.1")
    server.start(lambda identity, message: arrived.setdefault(identity, []).append(message), lambda: None)
    wire = Wire(server.address.endpoint)
    sent: list[int] = []

    def beat(count: int) -> FromSlot:
        sent.append(count)
        return FromSlot(0, 1, 7, Heartbeat([], count))

    address = msgspec.structs.replace(server.address, endpoint=wire.endpoint)
    slot = ControlClient(address, lambda message: None, beat, 20)
    try:
        slot.send(FromSlot(0, 1, 7, Register()))
        until(lambda: 1 in sent and len(arrived) == 1)
        wire.cut()
        until(lambda: len(arrived) == 2)
        slot.send(FromSlot(0, 1, 7, RequestSplit(0, 0)))
        until(lambda: 2 in sent)
        until(lambda: any(isinstance(message.report, RequestSplit) for message in list(arrived.values())[1]))
    finally:
        slot.close()
        wire.close()
        server.stop()
