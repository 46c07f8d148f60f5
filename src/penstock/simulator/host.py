"""The simulator's host of one slot: corresponds to `spark/worker/pipelined_stage.py`, with every wait made explicit.

Rows are written one by one; while the channel of a row is full, the host is blocked and does nothing else. A host
whose slot is closed or has failed continues to discard its input.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from penstock.common.errors import PenstockError
from penstock.plan.pickling import load_level
from penstock.rpc.failures import describe
from penstock.rpc.messages import Register, SlotFailed, SlotReport, ToTask
from penstock.runtime.ids import SlotId
from penstock.runtime.task.environment import Environment
from penstock.runtime.task.events import (
    AssignSplits,
    Cancel,
    Close,
    ControlEffect,
    Event,
    NoMoreSplits,
    SnapshotFailed,
    SnapshotWritten,
    WriteSnapshot,
)
from penstock.runtime.task.slot import Slot
from penstock.simulator.circumstances import Circumstances, shrink_buffers
from penstock.simulator.clock import Clock
from penstock.simulator.event_loop import SteppedEventLoops
from penstock.simulator.storage import MemoryRun
from penstock.simulator.stores import MemorySpill, MemoryStore
from penstock.state.backends.rocksdb.store import Stores
from penstock.state.snapshot.storage import SnapshotStorage


class World(Protocol):
    """The environment of a host."""

    def opening(self, slot: Slot) -> None:
        """Called before a slot is opened."""

    def sent(self, slot: SlotId, row: bytes) -> None:
        """Called with a row that a slot writes."""

    def fed_back(self, slot: SlotId, target: SlotId, row: bytes) -> None:
        """Called with a buffer that a slot feeds back to another one, or to itself."""

    def report(self, slot: SlotId, attempt: int, report: SlotReport) -> None:
        """A slot reports to the job master."""

    def upload_ms(self) -> int:
        """Return the delay before the storage starts to write."""


class SlotHost:
    """Drives one slot. `rows` are waiting to be written to the network."""

    def __init__(
        self,
        payload: bytes,
        slot_id: SlotId,
        clock: Clock,
        circumstances: Circumstances,
        world: World,
        storage: MemoryRun,
        attempt: int,
    ) -> None:
        self.id = slot_id
        self.attempt = attempt
        self.slot: Slot | None = None
        self.rows: deque[tuple[int, bytes]] = deque()
        self._blocked_since_ms: int | None = None
        """Since when rows wait to be sent."""
        self.discarding = False
        self.fresh = False
        self.is_frozen = False
        self._payload = payload
        self._clock = clock
        self._circumstances = circumstances
        self._world = world
        self._storage = storage
        self._writes: deque[tuple[WriteSnapshot, Any, int]] = deque()
        self._answers: deque[tuple[int, Event]] = deque()
        self._event_loops = SteppedEventLoops()

    @property
    def is_open(self) -> bool:
        """Whether the slot is open."""
        return self.slot is not None

    @property
    def busy(self) -> bool:
        """Whether the slot has work to do now."""
        return self.slot is not None and not self.discarding and any(task.busy for task in self.slot.tasks.values())

    def wake_at_ms(self) -> int | None:
        """Return when the next step is due without input."""
        return None if self.slot is None or self.discarding else self.slot.wake_at_ms()

    def open(self) -> None:
        """Open the slot."""
        self._guarded(self._open)

    def _open(self) -> None:
        budget = self._circumstances.budget(self._clock)
        level = load_level(self._payload)
        level.alignment_limits = self._circumstances.alignment_limits
        environment = Environment(
            self._clock.now_ms,
            self._clock.read_ns,
            budget=budget,
            stores=self._stores(),
            open_spill=MemorySpill,
            open_event_loop=self._event_loops.open,
        )
        self.slot = Slot(level, self.id[1], environment)
        shrink_buffers(self.slot, self._circumstances)
        self._world.opening(self.slot)
        self.slot.restore(self._storage)
        self.slot.open()
        self.fresh = True
        self._world.report(self.id, self.attempt, Register())

    def _stores(self) -> Stores | None:
        entries = self._circumstances.cached_entries
        turns = self._circumstances.store_timers
        return None if entries is None else Stores(MemoryStore, entries, turns[self.attempt % len(turns)])

    def receive(self, row: bytes) -> None:
        """Process a row that has arrived."""
        if not self.discarding:
            self.fresh = True
            self._guarded(lambda: self._of_slot().receive(row))

    def receive_feedback(self, row: bytes) -> None:
        """Process a buffer that was fed back."""
        if not self.discarding:
            self.fresh = True
            self._guarded(lambda: self._of_slot().receive_feedback(row))

    def step(self) -> None:
        """Run one step of the slot."""
        self.fresh = False
        self._guarded(self._step)

    def _step(self) -> None:
        slot = self._of_slot()
        while self._answers:
            slot.handle(*self._answers.popleft())
        slot.step()
        self._send_effects()

    def next_row(self) -> tuple[int, bytes]:
        """A row gets out; with the last one the slot can go on."""
        row = self.rows.popleft()
        if not self.rows and self._blocked_since_ms is not None:
            if self.slot is not None:
                self.slot.back_pressured((self._clock.now_ms() - self._blocked_since_ms) * 1_000_000)
            self._blocked_since_ms = None
        return row

    def upload_at_ms(self) -> int | None:
        """Return when the next part of a snapshot can be written, or None."""
        return self._writes[0][2] if self._writes else None

    def write(self, steps: int) -> None:
        """Continue writing a snapshot, for at most this many steps."""
        effect, writing, _ = self._writes[0]
        event: Event | None = None
        try:
            for _ in range(steps):
                next(writing)
        except StopIteration as end:
            event = SnapshotWritten(effect.snapshot.checkpoint_id, end.value)
        except OSError as error:
            event = SnapshotFailed(effect.snapshot.checkpoint_id, str(error))
        if event is not None:
            self._writes.popleft()
            self._answers.append((effect.vertex, event))
            self.fresh = True

    @property
    def calls_run(self) -> bool:
        """Whether a call of an asynchronous function is running."""
        return bool(self._event_loops)

    def go_on_with_a_call(self, random: Random) -> None:
        """Continue one of the calls that are running."""
        self._event_loops.step(random, lambda vertex, ended: self._answers.append((vertex, ended)))
        self.fresh = True

    def freeze(self) -> None:
        """The worker is stopped: it does nothing and sends no heartbeat, until it is killed."""
        self.is_frozen = True

    @property
    def sends_heartbeats(self) -> bool:
        """Whether its control thread lives."""
        return self.is_open and not self.is_frozen

    def kill(self) -> None:
        """Kill the worker with all its state.

        Functions are closed nevertheless, because their life cycles are checked.
        """
        self.discarding = self.is_frozen = True
        self.rows.clear()
        self._writes.clear()
        self._event_loops.close()
        if self.slot is not None:
            with contextlib.suppress(PenstockError):
                self.slot.handle_all(Cancel())
            self.slot.take_effects()

    def receive_control(self, message: ToTask) -> None:
        """Process a control message."""
        if not self.lets_in(message):
            return
        self.fresh = True
        slot = self._of_slot()
        if isinstance(message.event, (AssignSplits, NoMoreSplits)):
            self._guarded(lambda: slot.handle(message.vertex, message.event))
        elif isinstance(message.event, (Close, Cancel)):
            self._guarded(lambda: self._end(slot, message.event))
        elif not self.discarding:
            self._guarded(lambda: slot.handle(message.vertex, message.event))

    def lets_in(self, message: ToTask) -> bool:
        """Discard messages of another attempt, as `spark/worker/pipelined_stage.py` does."""
        return message.attempt == self.attempt

    def _end(self, slot: Slot, event: Event) -> None:
        self.discarding = True
        try:
            slot.handle_all(event)
        finally:
            self._send_effects()

    def _send_effects(self) -> None:
        slot = self._of_slot()
        for target, row in slot.outbox.take():
            if not self.discarding:
                if self._blocked_since_ms is None:
                    self._blocked_since_ms = self._clock.now_ms()
                self.rows.append((target, row))
                self._world.sent(self.id, row)
        for of_head, row in slot.take_feedback():
            if not self.discarding:
                self._world.fed_back(self.id, of_head, row)
        for effect in slot.take_effects():
            if isinstance(effect, WriteSnapshot):
                writing = effect.snapshot.write(self._storage_of(effect.snapshot.savepoint))
                self._writes.append((effect, writing, self._clock.now_ms() + self._world.upload_ms()))
            else:
                assert isinstance(effect, ControlEffect)
                self._world.report(self.id, self.attempt, effect)

    def _storage_of(self, savepoint: str) -> SnapshotStorage:
        return self._storage.savepoint(savepoint) if savepoint else self._storage

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except AssertionError:
            raise
        except Exception as error:
            self.discarding = True
            self._world.report(self.id, self.attempt, SlotFailed(*describe(error)))
            if self.slot is not None:
                # Report the first failure only.
                with contextlib.suppress(PenstockError):
                    self.slot.handle_all(Cancel())

    def _of_slot(self) -> Slot:
        assert self.slot is not None
        return self.slot
