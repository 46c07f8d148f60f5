"""Which slots share a worker, and with it one input and one output.

Rows between two workers keep their order, whichever slots they are of. A worker is named like its first slot.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.engine.runtime.task.worker_slots import WorkerRoutes, slots_of


class WorkerPlaces:
    """The workers of the present attempts, by level."""

    def __init__(self) -> None:
        self._routes: dict[int, WorkerRoutes] = {}
        self._sizes: dict[int, tuple[int, int]] = {}

    def started(self, levels: Iterable[LevelSpec]) -> None:
        """An attempt with these levels starts."""
        for level in levels:
            slots = level.widths[level.level]
            self._routes[level.level] = WorkerRoutes(level)
            self._sizes[level.level] = slots, level.workers[level.level] if level.workers else slots

    def worker_of(self, slot: SlotId) -> SlotId:
        """Return the worker that hosts a slot."""
        return SlotId(slot.level, slot.index % self._sizes[slot.level][1])

    def slots_of(self, worker: SlotId) -> list[SlotId]:
        """Return the slots of a worker."""
        return [SlotId(worker.level, index) for index in slots_of(worker.index, *self._sizes[worker.level])]

    def sent(self, slot: SlotId, target: int, row: bytes) -> tuple[SlotId, bytes]:
        """Return the worker that a row for the slot `target` of the next level goes to, and the row."""
        ((worker, packed),) = self._routes[slot.level].to_workers([(target, row)])
        return SlotId(slot.level + 1, worker), packed

    def received(self, worker: SlotId, row: bytes) -> SlotId:
        """Return the slot that a row is for."""
        routes = self._routes[worker.level]
        return SlotId(worker.level, *routes.by_slot([row])) if routes.are_shared else worker
