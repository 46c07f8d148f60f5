"""The channel between slots, over real sockets on the loopback."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from penstock.engine.rpc.keys import ControlAddress, make_keys
from penstock.engine.rpc.slot_channel import SlotInbox, SlotOutlets


def address() -> ControlAddress:
    keys = make_keys()
    return ControlAddress("tcp://127.0.0.1:9", keys.server_public, keys.client_public, keys.client_secret)


class End:
    """A slot that is sent to."""

    def __init__(self, keys: ControlAddress) -> None:
        self.received: queue.Queue[bytes] = queue.Queue()
        self.failures: list[BaseException] = []
        self.inbox = SlotInbox(keys, self.received.put, self.failures.append)


@pytest.fixture
def keys() -> ControlAddress:
    return address()


@pytest.fixture
def end(keys: ControlAddress) -> Iterator[End]:
    end = End(keys)
    yield end
    end.inbox.close()
    assert not end.failures


def test_messages_of_a_sender_keep_their_order(keys: ControlAddress, end: End) -> None:
    """Records would overtake each other on their way back."""
    outlets = [SlotOutlets(keys) for _ in range(2)]
    for number in range(500):
        for sender, outlet in enumerate(outlets):
            assert outlet.send(end.inbox.address, bytes([sender]) + b"%d" % number, lambda: False)
    messages = [end.received.get(timeout=20) for _ in range(1000)]
    for sender in range(2):
        assert [int(one[1:]) for one in messages if one[0] == sender] == list(range(500))
    for outlet in outlets:
        outlet.close()


def test_other_keys_are_refused(end: End) -> None:
    """Another user of the network could feed records into a job, or run code in its workers: buffers are pickles."""
    stranger = SlotOutlets(address())
    stranger.send(end.inbox.address, b"not yours", lambda: True)
    with pytest.raises(queue.Empty):
        end.received.get(timeout=0.3)
    stranger.close()


def test_who_waits_for_a_receiver_that_is_gone_can_give_up(keys: ControlAddress) -> None:
    """A slot whose neighbour was killed could not be cancelled."""
    end = End(keys)
    end.inbox.close()
    outlets, gone = SlotOutlets(keys), threading.Event()
    sent = 0
    while outlets.send(end.inbox.address, bytes(10), gone.is_set):
        sent += 1
        if sent == 64:
            gone.set()
    assert sent >= 64
    outlets.close()


def test_what_is_offered_arrives_or_is_dropped_and_never_waited_for(keys: ControlAddress, end: End) -> None:
    """A slot would wait with its records until another one has room for advice, and that one perhaps for it."""
    outlets = SlotOutlets(keys)
    outlets.offer(end.inbox.address, b"take note")
    assert end.received.get(timeout=20) == b"take note"
    for _ in range(10_000):
        outlets.offer("tcp://127.0.0.1:9", b"to nobody")
    outlets.close()
