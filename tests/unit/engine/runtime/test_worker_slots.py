"""Routes of rows where several slots share a worker, and bundles of small buffers."""

from __future__ import annotations

from tests.unit.plain_buffers import encoded

from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, PUSH, Header, decode_header
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.engine.runtime.task.worker_slots import BUNDLED_BYTES_MAX, WorkerRoutes, bundles, slots_of, unbundled

WIDTHS = (7, 5, 7)
WORKERS = (3, 2, 3)
EDGE = EdgeInfo(0, 1, 7, 5, 0, 1, WIDTHS)
PASSES = EdgeInfo(1, 2, 7, 7, 0, 2, WIDTHS)


def level(number: int, workers: tuple[int, ...] = WORKERS) -> LevelSpec:
    edges = {edge.id: edge for edge in (EDGE, PASSES) if edge.source_level < number <= edge.target_level}
    return LevelSpec("job", number, WIDTHS, [], edges, STREAMING, workers=workers)


def buffer(edge: EdgeInfo, sender: int, target: int, sequence: int = 0, size: int = 1) -> bytes:
    return encoded(Header(NO_KEY_GROUP, edge.id, sender, sequence, target, 0), [([b"." * size], None)])


def test_each_slot_has_one_worker() -> None:
    """A subtask would run twice, or not at all."""
    hosted = [slot for worker in range(3) for slot in slots_of(worker, 7, 3)]
    assert sorted(hosted) == list(range(7))


def test_a_row_reaches_the_slot_that_it_is_for() -> None:
    """Records would go to the subtask of another key group."""
    sent = [(target, buffer(EDGE, sender, target)) for sender in (0, 3, 6) for target in range(5)]
    # One that only passes through takes the slot of its sender.
    sent += [(PASSES.hop(1, sender, target), buffer(PASSES, sender, target)) for sender in (1, 6) for target in (0, 6)]
    rows = WorkerRoutes(level(0)).to_workers(sent)
    assert len(rows) == 2
    arrived: dict[int, list[bytes]] = {}
    for worker in range(2):
        found = WorkerRoutes(level(1)).by_slot([row for target, row in rows if target == worker] + [PUSH])
        assert set(found) <= set(slots_of(worker, 5, 2))
        arrived |= found
    for slot in range(5):
        assert arrived[slot] == [data for target, data in sent if target == slot]


def test_buffers_of_one_channel_keep_their_order() -> None:
    """A large buffer has a row of its own, and would overtake the small ones before it."""
    sizes = [1, BUNDLED_BYTES_MAX, 1, 1, BUNDLED_BYTES_MAX * 2, 1]
    sent = [(4, buffer(EDGE, 0, 4, sequence, size)) for sequence, size in enumerate(sizes)]
    rows = WorkerRoutes(level(0)).to_workers(sent)
    assert {worker for worker, _ in rows} == {0}
    arrived = WorkerRoutes(level(1)).by_slot([row for _, row in rows])[4]
    assert [decode_header(data).sequence for data in arrived] == list(range(len(sizes)))


def test_nothing_changes_where_no_worker_is_shared() -> None:
    """Each buffer of a usual job would be looked at, and copied, for nothing."""
    rows = [(4, buffer(EDGE, 0, 4)), (4, buffer(EDGE, 0, 4, 1))]
    for workers in ((), WIDTHS):
        routes = WorkerRoutes(level(0, workers))
        assert not routes.are_shared
        assert routes.to_workers(rows) is rows


def test_a_bundle_is_bounded() -> None:
    """A row of a thousand buffers would hold up what its receiver has to do meanwhile."""
    buffers = [buffer(EDGE, 0, 4, sequence, 1_000) for sequence in range(1_000)]
    packed = list(bundles(buffers))
    assert max(map(len, packed)) <= 1 << 16
    assert [data for row in packed for data in unbundled(row)] == buffers


def test_slots_that_share_a_worker_share_its_memory() -> None:
    """Four slots in a process would take four times its managed memory."""
    for workers, slots in (((), 1), (WIDTHS, 1), (tuple(1 for _ in WIDTHS), WIDTHS[1])):
        shared = level(1, workers)
        assert shared.slot_memory_bytes is None
        shared.managed_memory_bytes = 1200
        assert shared.slot_memory_bytes == 1200 // slots
