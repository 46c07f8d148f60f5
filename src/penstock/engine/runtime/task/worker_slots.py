"""Which worker process hosts which slots of a level, and which slot of a worker a row is for.

A worker has one input and one output, which its slots share. Slots are dealt out in turn: the first ones, which have
subtasks of all vertices of the level, are on different workers.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.engine.runtime.network.buffer import decode_header
from penstock.engine.runtime.network.bundles import BUNDLED_BYTES_MAX, bundles, unbundled
from penstock.engine.runtime.task.vertex import LevelSpec


def slots_of(worker: int, slots: int, workers: int) -> range:
    """Return the slots of a worker, of a level with so many slots and workers."""
    return range(worker, slots, workers)


class WorkerRoutes:
    """The routes of the rows of one level: from a slot to a worker of the next level, and to a slot of this one.

    Where workers are shared, small buffers for one worker travel together, in one row: a barrier alone is a buffer for
    each pair of slots.
    """

    def __init__(self, level: LevelSpec) -> None:
        self._level = level.level
        self._edges = level.edges
        self.are_shared = bool(level.workers) and level.workers != level.widths
        """Whether slots of any level of the job share workers."""
        behind = level.level + 1
        self._workers = level.workers[behind] if self.are_shared and behind < len(level.workers) else 1

    def to_workers(self, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return rows for slots of the next level as rows for its workers; those for one worker keep their order."""
        if not self.are_shared:
            return rows
        ready: list[tuple[int, bytes]] = []
        gathered: dict[int, list[bytes]] = {}
        for slot, buffer in rows:
            worker = slot % self._workers
            small = gathered.setdefault(worker, [])
            if len(buffer) <= BUNDLED_BYTES_MAX:
                small.append(buffer)
            else:
                ready += [(worker, bundle) for bundle in bundles(small)]
                small.clear()
                ready.append((worker, buffer))
        ready += [(worker, bundle) for worker, small in gathered.items() for bundle in bundles(small)]
        return ready

    def by_slot(self, rows: Iterable[bytes]) -> dict[int, list[bytes]]:
        """Return the buffers in these rows by slot of this level, in order. Pushes are left out."""
        buffers: dict[int, list[bytes]] = {}
        for row in rows:
            for buffer in unbundled(row):
                header = decode_header(buffer)
                slot = self._edges[header.edge].hop(self._level, header.sender, header.target)
                buffers.setdefault(slot, []).append(buffer)
        return buffers
