"""Elements go from the fetching thread to the reading one, and calls in the other direction."""

from __future__ import annotations

import contextlib
import resource
import socket
from collections.abc import Iterator
from threading import Thread

import pytest

from penstock.common.errors import SourceError
from penstock.connectors.base.handover import Handover

MANY_FILES = 1100


@pytest.fixture
def notified() -> list[None]:
    return []


@pytest.fixture
def handover(notified: list[None]) -> Iterator[Handover[str]]:
    handover: Handover[str] = Handover(10, lambda: notified.append(None))
    yield handover
    handover.end()


def test_elements_are_taken_in_order_and_bounded_by_their_sizes(handover: Handover[str], notified: list[None]) -> None:
    """A server that is faster than the job would fill the memory; or a job would wait for what has come."""
    assert handover.take() is None and handover.has_room
    handover.put("a", 4)
    handover.put("b", 6)
    assert not handover.has_room and len(notified) == 2

    assert handover.take() == "a" and handover.has_room
    handover.put("c", 100)
    assert [handover.take(), handover.take(), handover.take()] == ["b", "c", None] and handover.has_room


def test_the_bell_is_heard_once_and_never_missed(handover: Handover[str]) -> None:
    """The thread would wait for ever although there is room, an order, or the end; or it would never rest."""
    handover.wait(timeout_s=0)
    handover.put("a", 10)
    for ring in (handover.take, lambda: handover.submit(lambda: None), handover.close):
        # Before the thread waits: it would not come back from a wait without a limit.
        ring()
        assert not handover.wait()
    assert handover.is_closing and not handover.is_done
    handover.run_submitted()
    assert handover.is_done

    reader = Thread(target=handover.submit, args=(lambda: None,))
    reader.start()
    handover.wait()
    reader.join()
    assert not handover.is_done


def test_a_take_that_makes_no_room_rings_not(handover: Handover[str]) -> None:
    """Each batch would cost the thread that fetches a wake-up for nothing."""
    handover.put("a", 1)
    handover.put("b", 1)
    handover.take()
    server, client = socket.socketpair()
    with contextlib.closing(server), contextlib.closing(client):
        server.send(b"answer")
        # Both would end the wait. Only the server has.
        assert handover.wait(client)
        assert not handover.wait(timeout_s=0)


def test_a_server_ends_the_wait_as_well(handover: Handover[str]) -> None:
    """An answer of the server would be seen when the next order comes."""
    server, client = socket.socketpair()
    with contextlib.closing(server), contextlib.closing(client):
        assert not handover.wait(client, 0)
        server.send(b"answer")
        assert handover.wait(client)
        handover.submit(lambda: None)
        assert handover.wait(client), "both have happened"
        assert client.recv(10) == b"answer"
        assert not handover.wait(client, 0)


def test_sockets_of_a_process_with_many_files_can_be_waited_for(notified: list[None]) -> None:
    """A job whose state has a thousand files open would fail at its first wait."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MANY_FILES + 100:
        pytest.skip(f"this process may have {soft} files open")
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(open("/dev/null")) for _ in range(MANY_FILES)]  # noqa: PTH123
        assert max(file.fileno() for file in opened) > 1024
        handover: Handover[str] = Handover(1, lambda: None)
        handover.close()
        assert not handover.wait()
        handover.end()


def test_an_order_that_failed_is_the_first_again(handover: Handover[str]) -> None:
    """Calls to a server would be lost with a connection, or be made out of order."""
    told: list[str] = []
    lost = [ConnectionError("lost"), None]

    def tell_first() -> None:
        if (error := lost.pop(0)) is not None:
            raise error
        told.append("first")

    handover.submit(tell_first)
    handover.submit(lambda: told.append("second"))
    with pytest.raises(ConnectionError):
        handover.run_submitted()
    assert told == []
    handover.run_submitted()
    assert told == ["first", "second"]


def test_an_error_comes_behind_what_was_fetched(handover: Handover[str], notified: list[None]) -> None:
    """Records that were received would be thrown away, or the job would wait for a thread that has ended."""
    handover.put("a")
    handover.fail(SourceError("the server is gone"))
    assert len(notified) == 2 and handover.take() == "a"
    for _ in range(2):
        with pytest.raises(SourceError, match="the server is gone"):
            handover.take()


def test_what_comes_behind_the_end_does_no_harm(notified: list[None]) -> None:
    """A job whose source has failed would fail again while it is closed, and hide the error."""
    handover: Handover[str] = Handover(1, lambda: None)
    handover.put("a")
    handover.end()
    handover.submit(lambda: None)
    handover.close()
    assert handover.take() == "a"


def test_a_pause_ends_with_the_close(handover: Handover[str]) -> None:
    """A job would be canceled only when the next try is due."""
    handover.submit(lambda: None)
    handover.close()
    handover.pause(3600)
