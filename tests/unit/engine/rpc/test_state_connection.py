"""Live queries by the control port of a job."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.common.errors import JobError
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand
from penstock.engine.rpc.server import ControlServer
from penstock.engine.rpc.state_connection import StateConnection
from penstock.engine.runtime.task.events import Opaque


class Served:
    """A job's server. It answers when it has been asked `at_once` times, the last question first."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.asked: list[tuple[bytes, ReadCommand]] = []
        self.runs = True
        self.server = ControlServer("127.0.0.1")
        self.server.start(self.on_message, lambda: None)

    def on_message(self, identity: bytes, message: object) -> None:
        assert isinstance(message, ReadCommand)
        self.asked.append((identity, message))
        if len(self.asked) == self.at_once:
            for sender, command in reversed(self.asked):
                self.server.send(sender, ReadAnswer(command.number, entries=[Opaque(command.keys)]))
            self.asked = []


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served(at_once=20)
    yield one
    one.server.stop()


def test_each_thread_gets_its_own_answer(served: Served) -> None:
    """A program of several threads would be told what another one has asked."""
    connection = StateConnection(served.server.address, lambda: served.runs)
    found: dict[str, object] = {}

    def ask(thread: int) -> None:
        keys = [f"{thread}-{number}" for number in range(5)]
        asked = {key: connection.query(ReadCommand(0, "counts", keys=[key])) for key in keys}
        found.update({key: answer.result(20).entries[0].value for key, answer in asked.items()})

    threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    connection.close()
    assert len(found) == 20 and all(value == [key] for key, value in found.items())


def test_a_job_that_ends_leaves_nobody_waiting(served: Served) -> None:
    """A program would wait for ever for a driver that was killed."""
    connection = StateConnection(served.server.address, lambda: served.runs)
    asked = connection.query(ReadCommand(0, "counts"))
    served.runs = False
    with pytest.raises(JobError, match="without an answer"):
        asked.result(20)
    with pytest.raises(JobError, match="has ended"):
        connection.query(ReadCommand(0, "counts")).result(0)
    connection.close()


def test_what_can_not_be_sent_ends_nobody_elses_query(served: Served) -> None:
    """One wrong call would end the queries of all threads that share the client, now and later."""
    connection = StateConnection(served.server.address, lambda: served.runs)
    asked = [connection.query(ReadCommand(0, "counts", keys=["'a'"]))]
    with pytest.raises(OverflowError):
        connection.query(ReadCommand(0, "counts", limit=2**70))
    asked += [connection.query(ReadCommand(0, "counts", keys=["'b'"])) for _ in range(19)]
    assert [answer.result(20).error for answer in asked] == [""] * 20
    connection.close()


def test_what_is_closed_asks_nothing_more(served: Served) -> None:
    """A thread and a socket would stay for each client that a program has ever made."""
    unused, used = (StateConnection(served.server.address, lambda: True) for _ in range(2))
    asked = used.query(ReadCommand(0, "counts"))
    threads = threading.active_count()
    for connection in (unused, used, used):
        connection.close()
    assert isinstance(asked.exception(0), JobError) and threading.active_count() < threads
    assert isinstance(unused.query(ReadCommand(0, "counts")).exception(0), JobError)
