"""Bytes in flight: who sends them, who passes them on and who takes them count the same."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.plain_buffers import encoded

from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, CheckpointBarrier, Header, Watermark
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import ForwardPartitioner, RebalancePartitioner
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.sink import CollectOperator
from penstock.engine.runtime.operators.stateless import MapOperator
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode, LevelSpec, VertexSpec
from penstock.hosts.simulator.stores import MemorySpill

WIDTHS = (2, 2, 1, 1)
IN, OUT = EdgeInfo(0, 0, 2, 2, 0, 1, WIDTHS), EdgeInfo(1, 1, 2, 1, 1, 3, WIDTHS)


def sending() -> VertexSpec:
    one = MapOperator("one", UserFunction(lambda value: value, "f"))
    inputs, outputs = [(IN, ForwardPartitioner())], [(OUT, RebalancePartitioner())]
    return VertexSpec(0, "one", 2, 128, [ChainNode(one, "", [ChainLink(edge=1)])], inputs, outputs)  # type: ignore[arg-type]


class Path:
    """Two slots that send, one that passes on, and one that takes."""

    def __init__(self, aside_bytes: int) -> None:
        takes = VertexSpec(
            1, "out", 1, 128, [ChainNode(CollectOperator("out", 7), "", [])], [(OUT, RebalancePartitioner())], []
        )
        limits = AlignmentLimits(memory_bytes=aside_bytes)
        self.senders = [self._slot(1, index, [sending()], {0: IN}, limits) for index in range(2)]
        self.relay = self._slot(2, 0, [], {1: OUT}, limits)
        self.receiver = self._slot(3, 0, [takes], {1: OUT}, limits)
        self._sequences = [0, 0]

    def _slot(
        self, level: int, index: int, vertices: list[VertexSpec], edges: dict[int, EdgeInfo], limits: AlignmentLimits
    ) -> Slot:
        spec = LevelSpec(
            "job",
            level,
            WIDTHS,
            vertices,
            edges,
            STREAMING,
            in_flight_ms=800,
            alignment_limits=limits,
            checkpointing=True,
        )
        slot = Slot(spec, index, Environment(lambda: 1_000_000, lambda: 0, open_spill=MemorySpill))
        if slot.debloating is not None:
            slot.debloating.in_flight.first_bytes = 1 << 20
        slot.open()
        return slot

    def send(self, sender: int, *items: Any) -> list[bytes]:
        """Items go by a sender to the relay, in one buffer. Returns what leaves that."""
        header = Header(NO_KEY_GROUP, 0, sender, self._sequences[sender], sender, 0)
        self._sequences[sender] += 1
        slot = self.senders[sender]
        slot.receive(encoded(header, [*items]))
        while slot.step():
            pass
        for task in slot.tasks.values():
            for edge in task.edges:
                edge.flush()
        for _, row in slot.outbox.take():
            self.relay.receive(row)
        return [row for _, row in self.relay.outbox.take()]

    def take(self, rows: list[bytes]) -> None:
        """Rows come to the last slot, and are processed."""
        for row in rows:
            self.receiver.receive(row)
            while self.receiver.step():
                pass


def taken(slot: Slot, sender: int) -> int:
    assert slot.debloating is not None
    return slot.debloating.intake.consumed_bytes(sender)


@pytest.mark.parametrize("aside_bytes", [1 << 20, 0])
def test_senders_relays_and_receivers_count_the_same(aside_bytes: int) -> None:
    """What one side counts more stays in flight for good: a sender would hold, or have no limit."""
    path = Path(aside_bytes)
    path.take(path.send(0, (["a" * 100] * 5, None)))
    path.take(path.send(1, ([1, 2, 3], [4, 5, 6])))
    path.take(path.send(0, Watermark(7)))
    path.take(path.send(0, CheckpointBarrier(1, 0)))
    path.take(path.send(1, (["c"] * 9, None), Watermark(3), ([1, 2], None), Watermark(4)))
    items = ((["b"] * 50, None), Watermark(8), CheckpointBarrier(2, 0), ([1], None))
    behind = [path.send(0, item) for item in items]
    for rows in behind:
        assert rows
        path.take(rows)
    path.take(path.send(1, CheckpointBarrier(1, 0)))
    path.take(path.send(1, CheckpointBarrier(2, 0)))
    for index, sender in enumerate(path.senders):
        assert sender.outbox.sent[0] == taken(path.relay, index) > 0
    assert path.relay.outbox.sent[0] == taken(path.receiver, 0)


def test_a_buffer_counts_by_its_records_alone() -> None:
    """What takes no work would fill what may be in flight before a slow task."""
    path = Path(0)
    sent = path.senders[0].outbox.sent
    path.send(0, Watermark(1_790_000_000_000))
    path.send(0, CheckpointBarrier(1, 0))
    assert sent[0] == 2 * 2
    before = sent[0]
    path.send(0, ([1_000_000], None))
    assert 3 <= sent[0] - before <= 8
    before = sent[0]
    path.send(0, (["a" * 1_000], None))
    assert 1_000 <= sent[0] - before < 1_020
    before = sent[0]
    path.send(0, ([1_000_000], None), Watermark(1_790_000_000_001))
    assert 5 <= sent[0] - before <= 12, "a number and a watermark"
    before = sent[0]
    path.send(0, (["a" * 1_000], None), Watermark(1_790_000_000_002), (["c" * 1_000, "b"], None))
    assert 2_000 <= sent[0] - before < 2_050
    before = sent[0]
    path.send(0, ([*range(30_000)], None), Watermark(1_790_000_000_003))
    assert sent[0] - before > 80_000
