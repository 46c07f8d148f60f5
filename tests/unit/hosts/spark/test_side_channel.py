"""Messages between slots that are not rows, over real sockets on the loopback."""

from __future__ import annotations

import threading
import time

import pytest
from tests.unit.plain_buffers import encoded

from penstock.engine.rpc.keys import ControlAddress, make_keys
from penstock.engine.rpc.slot_channel import SlotInbox
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import ADVICE_EDGE, NO_KEY_GROUP, Header, decode_header
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import RebalancePartitioner
from penstock.engine.runtime.operators.sink import CollectOperator
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.vertex import ChainNode, LevelSpec, VertexSpec
from penstock.engine.runtime.task.worker_slots import unbundled
from penstock.hosts.spark.worker.side_channel import SideChannel, WorkerChannel

WIDTHS = (1, 1)
EDGE = EdgeInfo(0, 1, 1, 1, 0, 1, WIDTHS)


def slot(level: int, in_flight_ms: int = 1_000) -> Slot:
    """Return a slot of a job with one exchange: it sends (level 0) or receives (level 1)."""
    ends = [(EDGE, RebalancePartitioner())]
    inputs, outputs = (([], ends), (ends, []))[level]
    vertex = VertexSpec(level, "v", 1, 128, [ChainNode(CollectOperator("out", 7), "", [])], inputs, outputs)
    spec = LevelSpec("job", level, WIDTHS, [vertex], {0: EDGE} if level else {}, STREAMING, in_flight_ms=in_flight_ms)
    return Slot(spec, 0, Environment(lambda: 0, lambda: 0))


def fails(error: BaseException) -> None:
    raise error


def held() -> Slot:
    """A slot that sends, and has as much in flight as it may."""
    one = slot(0)
    one.outbox.put(0, b"0" * 10_000)
    assert one.debloating is not None and one.debloating.update()
    return one


@pytest.mark.parametrize("holds", [True, False])
def test_advice_arrives_and_wakes_a_slot_that_waits_for_it(holds: bool) -> None:
    """A slot that holds would wait until its limit lapses, for a second; others would be woken for nothing."""
    made = make_keys()
    keys = ControlAddress("tcp://127.0.0.1:9", made.server_public, made.client_public, made.client_secret)
    rung = threading.Event()
    sending, receiving = WorkerChannel(keys, fails), WorkerChannel(keys, fails)
    sender = SideChannel(held() if holds else slot(0), sending, rung.set)
    receiver = SideChannel(slot(1), receiving, lambda: None)
    try:
        assert sender.address and not receiver.address
        advice = encoded(Header(NO_KEY_GROUP, ADVICE_EDGE, 0, 0, 0, 0), [([5, 6], None)])
        # Without the address of the other slot, it sends no advice.
        receiver.advise([(SlotId(0, 0), advice)])
        receiver.peers_known([(0, 0, sender.address)])
        receiver.advise([(SlotId(0, 0), advice)])
        receiving.flush(lambda: False)
        until = time.monotonic() + 20
        while not sender.has_advice and time.monotonic() < until:
            time.sleep(0.001)
        assert rung.wait(20 if holds else 0.05) is holds
        assert list(sender.arrived_advice()) == [advice]
        assert not sender.has_advice
        assert sender.take() == [], "it is not fed back"
    finally:
        for channel in (sending, receiving, sender, receiver):
            channel.close()


def test_the_last_advice_of_a_target_stays_until_it_is_read() -> None:
    """Others that say much meanwhile would push it out, and an idle target says nothing again."""
    made = make_keys()
    keys = ControlAddress("tcp://127.0.0.1:9", made.server_public, made.client_public, made.client_secret)
    sending, receiving = WorkerChannel(keys, fails), WorkerChannel(keys, fails)
    sender = SideChannel(slot(0), sending, lambda: None)
    receiver = SideChannel(slot(1), receiving, lambda: None)
    try:
        receiver.peers_known([(0, 0, sender.address)])
        for number in range(2_000):
            advice = encoded(Header(NO_KEY_GROUP, ADVICE_EDGE, min(number, 1), 0, 0, 0), [([number, 6], None)])
            receiver.advise([(SlotId(0, 0), advice)])
            receiving.flush(lambda: False)
            # A receiver that is full gets no advice.
            time.sleep(0.001 * (number % 50 == 0))
        time.sleep(0.2)
        heard = list(sender.arrived_advice())
        assert sorted(decode_header(advice).sender for advice in heard) == [0, 1]
    finally:
        for channel in (sending, receiving, sender, receiver):
            channel.close()


def test_a_slot_without_feedback_or_advice_needs_no_channel() -> None:
    """Each slot of a job that has switched it off would have a socket and threads for nothing."""
    assert SideChannel.is_needed(slot(0)) and SideChannel.is_needed(slot(1))
    assert not (SideChannel.is_needed(slot(0, 0)) or SideChannel.is_needed(slot(1, 0)))


def test_feedback_to_slots_of_another_worker_is_one_message_in_order() -> None:
    """Each end of a superstep would wake a thread of the receiver, or large buffers overtake small ones."""
    made = make_keys()
    keys = ControlAddress("tcp://127.0.0.1:9", made.server_public, made.client_public, made.client_secret)
    messages: list[bytes] = []
    sending, receiving = WorkerChannel(keys, fails), SlotInbox(keys, messages.append, fails)
    buffers = [
        encoded(Header(NO_KEY_GROUP, 0, 0, number, 0, 0), [([b"0" * size], None)])
        for number, size in enumerate([10, 20, 5_000, 30, 40])
    ]
    try:
        for buffer in buffers:
            sending.feed_back(0, receiving.address, buffer)
        sending.flush(lambda: False)
        until = time.monotonic() + 20
        while len(messages) < 3 and time.monotonic() < until:
            time.sleep(0.001)
        assert [buffer for message in messages for buffer in unbundled(message)] == buffers
        assert len(messages) == 3, "the small ones before the large one, the large one, and those behind it"
    finally:
        sending.close()
        receiving.close()


def test_feedback_within_a_worker_needs_no_socket_and_wakes_nobody() -> None:
    """The thread that gives it takes it before it waits: a ring would cost it another turn."""
    made = make_keys()
    keys = ControlAddress("tcp://127.0.0.1:9", made.server_public, made.client_public, made.client_secret)
    rings: list[None] = []
    worker = WorkerChannel(keys, fails)
    neighbor = SideChannel(slot(0), worker, lambda: rings.append(None))
    try:
        buffer = encoded(Header(NO_KEY_GROUP, 0, 0, 0, 0, 0), [([1], None)])
        worker.feed_back(0, neighbor.address, buffer)
        assert neighbor.take() == [buffer]
        assert not rings
    finally:
        for channel in (worker, neighbor):
            channel.close()
