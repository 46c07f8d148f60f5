"""Assigns slots to workers. The slots of a worker share one input and one output.

Rows between two workers keep their order, across slots. A worker has the id of its first slot.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.common.errors import TaskLostError
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.claims import SharedMemory
from penstock.engine.runtime.network.worth import Price
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.engine.runtime.task.worker_slots import WorkerRoutes, slots_of


class WorkerPlaces:
    """The workers of the current attempts, by level."""

    def __init__(self) -> None:
        self._routes: dict[SlotId, WorkerRoutes] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        # Cached until the next attempt, because each step looks them up several times.
        self._worker_of: dict[SlotId, SlotId] = {}
        self._slots_of: dict[SlotId, list[SlotId]] = {}

    def started(self, levels: Iterable[LevelSpec], memory: SharedMemory) -> None:
        """Set the places for an attempt with these levels. `memory`: what its workers share."""
        for level in levels:
            slots = level.widths[level.level]
            workers = level.workers[level.level] if level.workers else slots
            for worker in range(workers):
                self._routes[SlotId(level.level, worker)] = WorkerRoutes(level, worker, memory)
            self._sizes[level.level] = slots, workers
        self._worker_of.clear()
        self._slots_of.clear()

    def worker_of(self, slot: SlotId) -> SlotId:
        """Return the worker that hosts a slot."""
        worker = self._worker_of.get(slot)
        if worker is None:
            worker = self._worker_of[slot] = SlotId(slot.level, slot.index % self._sizes[slot.level][1])
        return worker

    def slots_of(self, worker: SlotId) -> list[SlotId]:
        """Return the slots of a worker."""
        slots = self._slots_of.get(worker)
        if slots is None:
            indexes = slots_of(worker.index, *self._sizes[worker.level])
            slots = self._slots_of[worker] = [SlotId(worker.level, index) for index in indexes]
        return slots

    def sent(self, slot: SlotId, target: int, row: bytes) -> list[tuple[SlotId, bytes]]:
        """Return what a worker writes for a row of a slot for the slot `target` of the next level, with its workers."""
        rows = self._routes[self.worker_of(slot)].to_workers([(target, row)])
        return [(SlotId(slot.level + 1, worker), packed) for worker, packed in rows]

    def price(self, slot: SlotId) -> Price:
        """Return the price of the bytes of a slot's rows."""
        return self._routes[self.worker_of(slot)].price

    def received(self, worker: SlotId, row: bytes) -> tuple[SlotId, bytes] | None:
        """Return the target slot of a row, and the row as it was sent to it; None if it was only for the worker."""
        routes = self._routes[worker]
        try:
            rows = list(routes.received([row]))
        except TaskLostError as error:
            raise AssertionError(error) from None
        if not rows:
            return None
        return (SlotId(worker.level, *routes.by_slot(rows)) if routes.are_shared else worker), rows[0]
