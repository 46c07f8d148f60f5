"""Buffer debloating of slots: a sender holds when its receiver is slow, and goes on when that has taken something."""

from __future__ import annotations

from typing import Any

from tests.unit.plain_buffers import encoded

from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import (
    NO_KEY_GROUP,
    CheckpointBarrier,
    Header,
    content_bytes,
    decode_header,
    decode_message,
)
from penstock.engine.runtime.network.debloating import BUDGET_BYTES_MIN, FIRST_LAPSE_MS, FIRST_LAPSES_MAX
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import RebalancePartitioner
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.sink import CollectOperator
from penstock.engine.runtime.operators.stateless import FlatMapOperator
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode, LevelSpec, VertexSpec

WIDTHS = (1, 1, 1)
IN, OUT = EdgeInfo(0, 0, 1, 1, 0, 1, WIDTHS), EdgeInfo(1, 1, 1, 1, 1, 2, WIDTHS)
RECORDS = 500
FIRST_BYTES = 1 << 15
"""What the sender of these tests may have in flight at first: several of its steps' worth, as RECORDS are one step."""


class Line:
    """A slot that makes many records of one, and one that takes them, in a time of their own."""

    def __init__(self, in_flight_ms: int = 800, attempt: int = 0) -> None:
        self.now_ms = 1_000_000
        many = FlatMapOperator("many", UserFunction(lambda value: [f"{value}{n:0>100}" for n in range(RECORDS)], "f"))
        sends = VertexSpec(
            0, "many", 1, 128, [ChainNode(many, "", [ChainLink(edge=1)])], [(IN, RebalancePartitioner())],
            [(OUT, RebalancePartitioner())],
        )  # fmt: skip
        takes = VertexSpec(
            1, "out", 1, 128, [ChainNode(CollectOperator("out", 7), "", [])], [(OUT, RebalancePartitioner())], []
        )
        self.sender = self._slot(1, sends, {0: IN}, in_flight_ms, attempt)
        if self.sender.debloating is not None:
            self.sender.debloating.in_flight.first_bytes = FIRST_BYTES
        self.receiver = self._slot(2, takes, {1: OUT}, in_flight_ms, attempt)
        self._sequence = 0

    def _slot(self, level: int, vertex: VertexSpec, edges: dict[int, EdgeInfo], ms: int, attempt: int) -> Slot:
        spec = LevelSpec("job", level, WIDTHS, [vertex], edges, STREAMING, attempt, in_flight_ms=ms)
        slot = Slot(spec, 0, Environment(lambda: self.now_ms, lambda: 0))
        slot.open()
        return slot

    def feed(self, times: int) -> None:
        """So many records for the first slot."""
        for _ in range(times):
            header = Header(NO_KEY_GROUP, 0, 0, self._sequence, 0, self.sender.level.attempt)
            self.sender.receive(encoded(header, [(["x"], None)]))
            self._sequence += 1

    def send(self) -> list[bytes]:
        """What the first slot sends until it has nothing more to do, or holds."""
        while self.sender.step():
            pass
        return [row for _, row in self.sender.outbox.take()]

    def take(self, rows: list[bytes], each_ms: int) -> list[bytes]:
        """The second slot takes rows, a step for each, which takes so long. Returns its advice."""
        advice = []
        for row in rows:
            self.receiver.receive(row)
        busy = True
        while busy:
            busy = self.receiver.step()
            self.now_ms += each_ms
            advice += self.receiver.outgoing_advice()
        assert all(target == SlotId(1, 0) for target, _ in advice)
        return [message for _, message in advice]


def test_a_slot_holds_when_enough_is_in_flight_and_goes_on_when_it_is_taken() -> None:
    """Before a slow sink seconds of records would be in flight, and each barrier would wait that long."""
    line = Line()
    line.feed(20)
    rows = line.send()
    assert line.sender.is_throttled
    assert line.sender.waiting, "its host reads no more: its own senders come to hold"
    assert not line.sender.busy
    sent = sum(map(len, rows))
    assert FIRST_BYTES <= sent < 2 * FIRST_BYTES
    assert line.send() == []
    for message in line.take(rows, each_ms=20):
        line.sender.receive_advice(message)
    assert line.send()


def test_all_records_arrive_though_no_advice_does() -> None:
    """A job would stop where slots can't reach each other."""
    line = Line()
    line.feed(20)
    counters, begun_ms = line.receiver.tasks[1].counters, line.now_ms
    while counters.operators[0].records_in < 20 * RECORDS:
        line.take(line.send(), each_ms=0)
        wake_ms = line.sender.wake_at_ms()
        assert wake_ms is None or wake_ms - line.now_ms <= FIRST_LAPSE_MS
        line.now_ms = wake_ms or line.now_ms
        assert line.now_ms - begun_ms <= (FIRST_LAPSES_MAX + 1) * FIRST_LAPSE_MS


def test_rows_that_arrive_together_are_taken_in_their_turn() -> None:
    """A second's worth of rows would be taken at once: their sender would hear of nothing for a second, then of all."""
    line = Line()
    line.feed(20)
    first = line.send()
    for message in line.take(first, each_ms=20):
        line.sender.receive_advice(message)
    rows = line.send()
    for row in rows:
        line.receiver.receive(row)
    received = line.receiver.tasks[1].counters.buffers_in - len(first)
    assert 1 <= received < len(rows)
    line.take([], each_ms=1)
    assert line.receiver.tasks[1].counters.buffers_in == len(first) + len(rows)


def test_a_buffer_that_is_done_with_counts_at_once() -> None:
    """Its time would count without it: a slot whose calls take long would be measured slower than it is."""
    line = Line(in_flight_ms=800)
    line.feed(20)
    rows = line.send()[:2]
    advice = line.take(rows, each_ms=200)
    taken, budget, *_ = decode_message(advice[-1])
    assert taken == budget == sum(map(content_bytes, rows))


def test_a_buffer_that_is_worked_on_does_not_count() -> None:
    """Of the first one, when a part of it is done, a slot would ask for as much as the whole in that time."""
    line = Line(in_flight_ms=800)
    slot = line.sender
    assert slot.debloating is not None
    slot.debloating.in_flight.first_bytes = 1 << 40
    # Each record makes many: a step that may send a byte ends with the first.
    slot.budget.step_bytes = 1
    buffer = encoded(Header(NO_KEY_GROUP, 0, 0, 0, 0, 0), [(["x" * 1_000, "y" * 1_000], None)])
    slot.receive(buffer)
    slot.outgoing_advice()
    budgets = []
    while slot.step():
        line.now_ms += 50
        budgets += [decode_message(message)[1] for _, message in slot.outgoing_advice()]
    line.now_ms += 400
    ((_, message),) = slot.outgoing_advice()
    assert set(budgets) == {BUDGET_BYTES_MIN}
    assert decode_message(message)[1] > 500


def test_buffers_become_as_small_as_the_budget_asks_for() -> None:
    """A budget of one large buffer is taken in one piece, and its sender would wait for the whole of it."""
    line = Line()
    line.feed(20)
    first = line.send()
    assert max(map(len, first)) <= FIRST_BYTES // 4
    for message in line.take(first, each_ms=300):
        line.sender.receive_advice(message)
    slow = line.send()
    assert max(map(len, slow[-3:])) < FIRST_BYTES // 16


def test_advice_of_an_earlier_attempt_is_dropped() -> None:
    """What a former receiver has taken would be subtracted from what is in flight to this one."""
    line, former = Line(attempt=1), Line(attempt=0)
    for one in (line, former):
        one.feed(20)
    rows = line.send()
    for message in former.take(former.send(), each_ms=20):
        assert decode_header(message).attempt == 0
        line.sender.receive_advice(message)
    assert line.send() == []
    assert rows


def test_without_a_target_nothing_is_bounded_or_said() -> None:
    """A job whose user has switched it off would pay for it."""
    line = Line(in_flight_ms=0)
    line.feed(20)
    rows = line.send()
    assert sum(map(len, rows)) > 20 * RECORDS * 100
    assert line.take(rows, each_ms=100) == []
    assert not (line.sender.is_advised or line.receiver.advises)


def test_who_advises_whom() -> None:
    """Sockets and threads would be made for nothing, or advice would not arrive."""
    line = Line()
    assert line.sender.is_advised and line.sender.advises
    assert line.receiver.advises and not line.receiver.is_advised


def test_what_is_set_aside_for_a_barrier_is_not_taken_at_once() -> None:
    """While one sender is stopped before its barrier, the other would be sent for all that it has: an hour's work."""
    widths = (2, 1)
    edge = EdgeInfo(0, 1, 2, 1, 0, 1, widths)
    takes = VertexSpec(
        1, "out", 1, 128, [ChainNode(CollectOperator("out", 7), "", [])], [(edge, RebalancePartitioner())], []
    )
    spec = LevelSpec("job", 1, widths, [takes], {0: edge}, STREAMING, 0, in_flight_ms=800)
    slot = Slot(spec, 0, Environment(lambda: 1_000_000, lambda: 0))
    slot.open()

    def row(sender: int, sequence: int, item: Any) -> bytes:
        return encoded(Header(NO_KEY_GROUP, 0, sender, sequence, 0, 0), [item])

    assert slot.debloating is not None
    taken = slot.debloating.intake.consumed_bytes
    rows = [row(0, 0, CheckpointBarrier(1, 0)), row(0, 1, ([1], None)), row(0, 2, ([2], None))]
    for one in rows:
        slot.receive(one)
        slot.step()
    assert taken(0) == content_bytes(rows[0])
    slot.receive(row(1, 0, CheckpointBarrier(1, 0)))
    while slot.step():
        pass
    assert taken(0) == sum(content_bytes(one) for one in rows)
    assert slot.tasks[1].counters.operators[0].records_in == 2
