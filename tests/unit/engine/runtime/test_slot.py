"""A slot: its tasks share one input and one output; what only passes through its level is relayed."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from tests.unit.plain_buffers import encoded

from penstock.engine.runtime.execution_mode import BATCH, STREAMING
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.buffer import (
    NO_KEY_GROUP,
    OUTCOME_EDGE,
    PUSH,
    EndOfData,
    Header,
    decode_header,
    decode_message,
)
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import RebalancePartitioner
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.sink import CollectOperator
from penstock.engine.runtime.operators.stateless import FlatMapOperator
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import Cancel, Close, Finished, InputEnded, Opaque, Result
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.vertex import ChainNode, LevelSpec, VertexSpec
from penstock.engine.state.handles import Redistribution, RestoredOperator
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.snapshot.files import write_lists
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.hosts.spark.worker.reports import reports_of

WIDTHS = (2, 3, 2, 4)


def edge(id: int, target_vertex: int, target_level: int, target_parallelism: int = 2) -> EdgeInfo:
    return EdgeInfo(id, target_vertex, 2, target_parallelism, 0, target_level, WIDTHS)


def slot_of(*operators: Operator, index: int = 1, batched: bool = False, clock=lambda: 0, opened: bool = True) -> Slot:
    """Slot of level 1 with a vertex for each operator, each fed by an edge of its own; edge 9 passes through."""
    edges = {n: edge(n, n, 1) for n in range(len(operators))} | {9: edge(9, 99, 3, 4)}
    vertices = [
        VertexSpec(n, f"vertex {n}", 2, 128, [ChainNode(op, "", [])], [(edges[n], RebalancePartitioner())], [])
        for n, op in enumerate(operators)
    ]
    slot = Slot(
        LevelSpec("job", 1, WIDTHS, vertices, edges, BATCH if batched else STREAMING),
        index,
        Environment(lambda: 0, clock),
    )
    if opened:
        slot.open()
    return slot


def buffer(edge: int, *segments, sender: int = 0, sequence: int = 0, target: int = 1) -> bytes:
    return encoded(Header(NO_KEY_GROUP, edge, sender, sequence, target, 0), list(segments))


class Closing(CollectOperator):
    def __init__(self, name: str, log: list, fails: bool) -> None:
        super().__init__(name, 0)
        self.log, self.fails = log, fails

    def close(self):
        self.log.append(self.name)
        if self.fails:
            raise OSError(self.name)


def test_a_buffer_goes_to_its_vertex() -> None:
    """Records of one stream would be processed by the operators of another."""
    slot = slot_of(CollectOperator("a", 10), CollectOperator("b", 20))
    slot.receive(buffer(1, (["x"], None)))
    slot.receive(buffer(0, (["y"], None)))
    slot.receive(PUSH)
    while slot.step():
        pass
    assert slot.take_effects() == [Result(0, 1, 10, Opaque(["y"])), Result(1, 1, 20, Opaque(["x"]))]


@pytest.mark.parametrize("sender", [0, 1])
def test_what_passes_through_is_relayed_untouched_and_always_the_same_way(sender: int) -> None:
    """Buffers of one sender would overtake each other on an edge that skips a level."""
    slot = slot_of()
    for sequence, target in enumerate((0, 1, 2, 3)):
        slot.receive(buffer(9, (["x"], None), sender=sender, sequence=sequence, target=target))
    rows = slot.outbox.take()
    assert {target for target, _ in rows} == {sender % WIDTHS[2]}
    assert [decode_header(row).sequence for _, row in rows] == [0, 1, 2, 3]
    last = Slot(
        LevelSpec("job", 2, WIDTHS, [], {9: edge(9, 99, 3, 4)}, STREAMING), 0, Environment(lambda: 0, lambda: 0)
    )
    last.receive(rows[3][1])
    assert last.outbox.take() == [(3, rows[3][1])]


def test_a_slot_has_tasks_only_for_vertices_that_reach_it() -> None:
    """A vertex of parallelism 2 would have a third subtask without input, and the job would wait for it."""
    slot = slot_of(CollectOperator("a", 10), index=2)
    assert slot.tasks == {}
    assert slot.data_ended
    assert slot.finished
    assert slot.wake_at_ms() is None
    assert slot.step() is False


def test_one_task_does_not_starve_its_neighbour() -> None:
    """A flat_map that explodes would stop the other operators of its level."""
    endless = FlatMapOperator("endless", UserFunction(lambda value: iter(int, 1), "flat_map"))
    ns = itertools.count(step=1_000_000)
    slot = slot_of(endless, CollectOperator("b", 20), clock=lambda: next(ns))
    slot.receive(buffer(0, (["x"], None)))
    slot.receive(buffer(1, (["y"], None)))
    for _ in range(3):
        assert slot.step() is True
    assert slot.take_effects() == [Result(1, 1, 20, Opaque(["y"]))]


def test_the_end_of_a_slot() -> None:
    """The job would be closed while one of its tasks still has records."""
    slot = slot_of(CollectOperator("a", 10), CollectOperator("b", 20))
    for id, sender in ((0, 0), (0, 1), (1, 0)):
        slot.receive(buffer(id, EndOfData(), sender=sender))
    slot.step()
    assert not slot.data_ended
    slot.receive(buffer(1, EndOfData(), sender=1))
    slot.step()
    assert slot.data_ended
    assert not slot.finished
    slot.take_effects()
    slot.handle_all(Close())
    assert slot.finished
    assert slot.take_effects() == [Finished(0, 1), Finished(1, 1)]


def test_all_tasks_are_closed_though_one_fails() -> None:
    """The failure of one function would leave the connections of the others open."""
    log: list = []
    slot = slot_of(Closing("a", log, True), Closing("b", log, True), Closing("c", log, False))
    with pytest.raises(OSError, match="a"):
        slot.handle_all(Cancel())
    assert log == ["a", "b", "c"]


def test_the_outcome_of_a_batched_slot_travels_through_the_levels_behind() -> None:
    """print() in the middle of a batched job would show nothing, or show the results of failed attempts."""
    slot = slot_of(CollectOperator("a", 10), batched=True)
    slot.receive(buffer(0, (["x", "y"], None)))
    while slot.step():
        pass
    assert slot.take_effects() == [Result(0, 1, 10, Opaque([value])) for value in ("x", "y")]
    slot.send_outcome((17, "counters"))
    ((target, row),) = slot.outbox.take()
    assert target == 1 % WIDTHS[2]
    assert decode_header(row).edge == OUTCOME_EDGE
    assert decode_message(row) == (17, "counters")
    behind = Slot(LevelSpec("job", 3, WIDTHS, [], {}, BATCH), 1, Environment(lambda: 0, lambda: 0))
    behind.receive(row)
    assert behind.outbox.take() == [(0, row)]
    slot.handle_all(InputEnded())
    while slot.step():
        pass
    assert slot.data_ended


class Given(CollectOperator):
    def restore_lists(self, lists):
        self.lists = lists


def test_what_a_task_reads_back_is_reported() -> None:
    """It would go unnoticed that each task of a rescaled job reads all of the state."""
    storage = MemoryStorage(Random(0), 0)
    file = finished(write_lists(storage, "f", [NamedList("positions", Redistribution.SPLIT, ["here", "there"])]))
    operators = [Given("a", 10), Given("b", 20)]
    slot = slot_of(*operators, opened=False)
    slot.level.restore[SubtaskId(0, 1)] = {"": RestoredOperator(lists=[(file.path, file.lists[0])])}

    assert slot.restore(storage) == file.bytes
    assert operators[0].lists == [NamedList("positions", Redistribution.SPLIT, ["here", "there"])]
    assert [report.restored_bytes for report in reports_of(slot, 0)] == [file.bytes, 0]


def finished(writing):
    """What a generator returns that had nothing to yield."""
    with pytest.raises(StopIteration) as end:
        next(writing)
    return end.value.value
