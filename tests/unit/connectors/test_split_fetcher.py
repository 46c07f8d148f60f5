"""The thread that fetches: in which order it does what, and how it ends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.errors import JobError, SourceError
from penstock.connectors.base.retries import TransientError
from penstock.connectors.base.split_fetcher import SplitFetcher

PATIENCE_S = 60


class Server:
    """Answers with numbers, one after the other, or with what a test has it answer with."""

    def __init__(self, *answers: Any) -> None:
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for answer in answers:
            self.answers.put(answer)
        self.connections = 0
        self.heard: list[str] = []


class Fetcher(SplitFetcher[int]):
    """Waits for an answer where nothing but `interrupt` can wake it."""

    def __init__(self, server: Server, notify: Callable[[], None], max_retries: int = 0) -> None:
        super().__init__("penstock-test", 2, notify, max_retries)
        self.server = server
        self.is_connected = False
        self.held = threading.Event()
        self.start()

    def tell(self, text: str) -> None:
        def tell() -> None:
            self.connect()
            self.server.heard.append(text)

        self.handover.submit(tell)

    def connect(self) -> None:
        if not self.is_connected:
            self.is_connected = True
            self.server.connections += 1

    def fetch(self) -> None:
        self.connect()
        answer = self.server.answers.get(timeout=PATIENCE_S)
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            self.handover.put(answer)

    def wait_for_room(self) -> None:
        self.held.set()
        super().wait_for_room()

    def interrupt(self) -> None:
        self.server.answers.put(None)

    def disconnect(self) -> None:
        self.is_connected = False


class Reader:
    """Takes what comes, and waits only to be notified."""

    def __init__(self, server: Server, max_retries: int = 0) -> None:
        self.notified = threading.Semaphore(0)
        self.fetcher = Fetcher(server, self.notified.release, max_retries)

    def take(self) -> int:
        while (element := self.fetcher.take()) is None:
            assert self.notified.acquire(timeout=PATIENCE_S), "nothing arrived, and no notification either"
        return element


def test_what_is_fetched_comes_in_order_and_as_much_as_there_is_room_for() -> None:
    """A server that is faster than the job would fill the memory; or a job would stop when it was slow once."""
    server = Server(*range(9))
    reader = Reader(server)
    assert reader.fetcher.held.wait(PATIENCE_S)
    assert server.answers.qsize() == 7

    assert [reader.take() for _ in range(9)] == list(range(9))
    reader.fetcher.close()
    assert not reader.fetcher.is_connected and server.connections == 1


def test_orders_are_carried_out_while_there_is_no_room_and_before_the_close() -> None:
    """A slow job would never tell how far it is, and one that ends would not tell it at all."""
    server = Server(*range(9))
    reader = Reader(server)
    assert reader.fetcher.held.wait(PATIENCE_S)
    for text in "abc":
        reader.fetcher.tell(text)
    reader.fetcher.close()

    assert server.heard == ["a", "b", "c"] and not reader.fetcher.is_connected


def test_orders_come_before_what_is_fetched_next() -> None:
    """A split that was assigned, or given up, would not be before the next answer."""
    server = Server()
    reader = Reader(server)
    reader.fetcher.tell("a")
    server.answers.put(1)
    server.answers.put(2)
    assert [reader.take(), reader.take()] == [1, 2] and server.heard == ["a"]
    reader.fetcher.close()


def test_a_lost_connection_is_made_again() -> None:
    """A server that is started again would fail the job."""
    server = Server(0, TransientError("restarts"), 1, 2)
    reader = Reader(server, max_retries=1)
    assert [reader.take() for _ in range(3)] == [0, 1, 2] and server.connections == 2
    reader.fetcher.close()


def test_a_job_that_is_closed_waits_not_for_the_next_try() -> None:
    """A job would be canceled only after the seconds between two tries, which grow."""
    server = Server(*(TransientError(f"lost {number}") for number in range(100)))
    reader = Reader(server, max_retries=100)
    reader.fetcher.close()
    assert not reader.fetcher.is_connected


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (SourceError("deleted"), "deleted"),
        (TransientError("away"), "away"),
        (JobError("refused"), "refused"),
        (KeyError("x"), r"KeyError\('x'\)"),
        (SystemExit(3), r"SystemExit\(3\)"),
    ],
)
def test_what_ends_the_thread_is_told_behind_what_was_fetched(raised: BaseException, told: str) -> None:
    """A job would wait for ever for a source that has ended, or lose what had come before."""
    reader = Reader(Server(7, raised))
    assert reader.take() == 7
    with pytest.raises(SourceError, match=f"^{told}$") as failed:
        reader.take()
    assert failed.value is raised or failed.value.__cause__ is raised
    reader.fetcher.tell("too late")
    reader.fetcher.close()
    assert not reader.fetcher.is_connected
