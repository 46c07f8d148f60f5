"""The simulator's host of one slot. It does what `hosts/spark/worker/pipelined_stage.py` does on Spark, without waits.

It writes rows one by one; while the channel of a row is full, the host is blocked completely.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Any, Protocol

from penstock.common.errors import PenstockError
from penstock.engine.plan.pickling import load_level
from penstock.engine.rpc.failures import describe
from penstock.engine.rpc.messages import Register, SlotFailed, SlotReport, ToTask
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.worth import Price
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import (
    Cancel,
    ControlEffect,
    DataAvailable,
    Event,
    Peers,
    Senders,
    SnapshotFailed,
    SnapshotWritten,
    WriteSnapshot,
)
from penstock.engine.runtime.task.slot import Slot, SlotLifecycle
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.backends.state_backend import StateBackend
from penstock.engine.state.memory_budget import MemoryBudget
from penstock.engine.state.snapshot.storage import SnapshotStorage
from penstock.hosts.simulator.circumstances import FIRST_RECORDS, Circumstances, fit_sizes
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.event_loop import SteppedEventLoops
from penstock.hosts.simulator.external_store import ExternalStore
from penstock.hosts.simulator.storage import MemoryRun
from penstock.hosts.simulator.stores import MemorySpill


class World(Protocol):
    """The environment of a host."""

    def opening(self, slot: Slot) -> None:
        """Called before a slot is opened."""

    def sent(self, slot: SlotId, row: bytes) -> None:
        """Called with a row that a slot writes."""

    def fed_back(self, slot: SlotId, target: SlotId, row: bytes) -> None:
        """Called with a buffer that a slot feeds back to another one, or to itself."""

    def advised(self, target: SlotId, message: bytes) -> None:
        """Called with advice of a slot for another one."""

    def report(self, slot: SlotId, attempt: int, report: SlotReport) -> None:
        """Called with a report of a slot to the job master."""

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
        external: ExternalStore,
    ) -> None:
        self.id = slot_id
        self.attempt = attempt
        self._life = SlotLifecycle(attempt, self)
        self.rows: deque[tuple[int, bytes]] = deque()
        self._feedback: list[bytes] = []
        """Feedback that has arrived, and that the slot does not need yet."""
        self._blocked_since_ms: int | None = None
        """When rows started to wait, or None."""
        self._held_since_ms: int | None = None
        """When the slot was throttled, or None."""
        self.fresh = False
        self.is_frozen = False
        self._payload = payload
        self._clock = clock
        self._circumstances = circumstances
        self._world = world
        self._storage = storage
        self._external = external
        self._writes: deque[tuple[WriteSnapshot, Any, int]] = deque()
        self._answers: deque[tuple[int, Event]] = deque()
        self._event_loops = SteppedEventLoops()

    @property
    def slot(self) -> Slot | None:
        """The slot, if it was created."""
        return self._life.slot

    @property
    def discarding(self) -> bool:
        """Whether the slot is closed or has failed."""
        return self._life.discarding

    @property
    def is_open(self) -> bool:
        """Whether the slot is open."""
        return self.slot is not None

    @property
    def takes_rows(self) -> bool:
        """Whether rows can reach the slot, to be processed or discarded."""
        return not self.is_frozen and (self.is_open or self.discarding)

    @property
    def busy(self) -> bool:
        """Whether the slot has work to do now."""
        return self.slot is not None and not self.discarding and self.slot.busy

    def wake_at_ms(self) -> int | None:
        """Return when the next step is due without input."""
        return None if self.slot is None or self.discarding else self.slot.wake_at_ms()

    def open(self) -> None:
        """Open the slot."""
        self._life.open(self._create, lambda slot: slot.restore(self._storage))

    def _create(self) -> Slot:
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
            notify=lambda vertex: self._answers.append((vertex, DataAvailable())),
            buffers=self._circumstances.buffers,
            first_records=FIRST_RECORDS,
            memory=self._memory(),
        )
        slot = Slot(level, self.id.index, environment)
        fit_sizes(slot, self._circumstances)
        self._world.opening(slot)
        return slot

    def _stores(self) -> StateBackend | None:
        entries = self._circumstances.cached_entries
        if self._circumstances.external_store:
            return self._external.stores(1 if entries is None else entries)
        turns = self._circumstances.store_timers
        open_store = self._circumstances.open_store
        return None if entries is None else Stores(open_store, entries, turns[self.attempt % len(turns)])

    def _memory(self) -> MemoryBudget:
        # Where state is in a store, arrays are caches, which work without any memory of their own.
        return MemoryBudget(0 if self._circumstances.cached_entries == 1 else None)

    def receive(self, row: bytes) -> None:
        """Process a row that has arrived."""
        self.fresh = self.fresh or not self.discarding
        self._life.receive([row])

    def receive_feedback(self, row: bytes) -> None:
        """Process a buffer that was fed back."""
        self._feedback.append(row)
        self._deliver_feedback()

    def _deliver_feedback(self) -> None:
        """Deliver feedback as late as a host may: when the slot could do something with it."""
        slot = self._life.slot
        if slot is not None and self._feedback and len(self._feedback) >= slot.feedback_awaited:
            rows, self._feedback = self._feedback, []
            self.fresh = self.fresh or not self.discarding
            self._life.receive_feedback(lambda: rows)

    def receive_advice(self, message: bytes) -> None:
        """Process advice of a slot that this one sends to."""
        self.fresh = True
        self._life.receive_advice([message])

    def step(self) -> None:
        """Run one step of the slot."""
        self.fresh = False
        self._life.step(self._outcomes)
        self._deliver_feedback()
        self._take_rows()
        self._count_held_time()

    def _count_held_time(self) -> None:
        slot = self.slot
        if slot is None or slot.is_throttled == (self._held_since_ms is not None):
            return
        if self._held_since_ms is not None:
            slot.back_pressured((self._clock.now_ms() - self._held_since_ms) * 1_000_000)
            self._held_since_ms = None
        else:
            self._held_since_ms = self._clock.now_ms()

    def _outcomes(self) -> Iterator[tuple[int, Event]]:
        while self._answers:
            yield self._answers.popleft()

    def set_price(self, price: Price) -> None:
        """Set the price of the bytes of the rows to send."""
        if self.slot is not None:
            self.slot.outbox.price = price

    def next_row(self) -> tuple[int, bytes]:
        """Return the next row to write; after the last one the slot can continue."""
        row = self.rows.popleft()
        if not self.rows and self._blocked_since_ms is not None:
            if self.slot is not None:
                self.slot.back_pressured((self._clock.now_ms() - self._blocked_since_ms) * 1_000_000)
            self._blocked_since_ms = None
        return row

    def upload_at_ms(self) -> int | None:
        """Return when the next part of a snapshot can be written, or None."""
        return self._writes[0][2] if self._writes else None

    def continue_upload(self, steps: int) -> None:
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
    def has_calls(self) -> bool:
        """Whether a call of an asynchronous function is running."""
        return bool(self._event_loops)

    def continue_call(self, random: Random) -> None:
        """Continue one of the calls that are running."""
        self._event_loops.step(random, lambda vertex, ended: self._answers.append((vertex, ended)))
        self.fresh = True

    def freeze(self) -> None:
        """Stop the worker: it does nothing and sends no heartbeat until it is killed."""
        self.is_frozen = True

    @property
    def sends_heartbeats(self) -> bool:
        """Whether its control thread is alive."""
        return self.is_open and not self.is_frozen

    def kill(self) -> None:
        """Kill the worker with all its state.

        Functions are closed nevertheless, because their life cycles are checked.
        """
        self._life.discarding = self.is_frozen = True
        self.rows.clear()
        self._writes.clear()
        self.close_calls()
        if self.slot is not None:
            with contextlib.suppress(PenstockError):
                self.slot.handle_all(Cancel())
            self.slot.take_effects()

    def close_calls(self) -> None:
        """Close the calls of asynchronous functions."""
        self._event_loops.close()

    def receive_control(self, message: ToTask) -> None:
        """Process a control message."""
        self.fresh = True
        self._life.control(message.attempt, message.vertex, message.event)
        self._take_rows()

    def _take_rows(self) -> None:
        slot = self.slot
        for target, row in slot.outbox.take() if slot is not None else ():
            if not self.discarding:
                if self._blocked_since_ms is None:
                    self._blocked_since_ms = self._clock.now_ms()
                self.rows.append((target, row))
                self._world.sent(self.id, row)

    # SlotEffects.

    def created(self) -> None:
        """Do nothing: the slot may register at any later time."""

    def opened(self) -> None:
        """Report the slot to the job master."""
        self.fresh = True
        slot = self.slot
        reached = slot is not None and slot.is_advised
        self._world.report(self.id, self.attempt, Register("simulated" if reached else ""))

    def failed(self, error: BaseException) -> None:
        """Report the error; assertions of the simulation end the simulation."""
        if isinstance(error, AssertionError) or not isinstance(error, Exception):
            raise error
        self._world.report(self.id, self.attempt, SlotFailed(*describe(error)))

    def cancel_failed(self, error: BaseException) -> None:
        """Ignore the error, unless the simulation raised it."""
        if not isinstance(error, PenstockError):
            raise error

    def counters(self) -> None:
        """Do nothing: the simulator does not check counters."""

    def closed(self) -> None:
        """Abandon unfinished uploads."""
        while self._writes:
            _, writing, _ = self._writes.popleft()
            writing.close()

    def peers_known(self, peers: Peers | Senders) -> None:
        """Do nothing: every slot reaches every other one."""

    def advise(self, advice: list[tuple[SlotId, bytes]]) -> None:
        """Send advice to other slots."""
        for target, message in advice:
            self._world.advised(target, message)

    def feed_back(self, buffers: list[tuple[SlotId, bytes]]) -> None:
        """Send feedback to other slots."""
        for target, buffer in buffers:
            self._world.fed_back(self.id, target, buffer)

    def write(self, effect: WriteSnapshot) -> None:
        """Queue a snapshot for a later upload."""
        writing = effect.snapshot.write(self._storage_of(effect.snapshot.savepoint))
        self._writes.append((effect, writing, self._clock.now_ms() + self._world.upload_ms()))

    def report(self, effect: ControlEffect) -> None:
        """Send a report to the job master."""
        self._world.report(self.id, self.attempt, effect)

    def _storage_of(self, savepoint: str) -> SnapshotStorage:
        return self._storage.savepoint(savepoint) if savepoint else self._storage
