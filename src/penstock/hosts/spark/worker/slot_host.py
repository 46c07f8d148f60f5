"""The host of one slot in pipelined mode: its threads, its connection to the job master, its channel to other slots.

What the slot does when is the same for all hosts: engine/runtime/task/slot_lifecycle.py. The rows come and go by the
worker, which the slot may share with others: pipelined_stage.py.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from penstock.common.errors import TaskLostError
from penstock.common.time.wall_clock import now_ms
from penstock.engine.checkpoint.storage import DirectoryStorage
from penstock.engine.rpc.client import ControlClient
from penstock.engine.rpc.failures import describe
from penstock.engine.rpc.messages import (
    FromJobMaster,
    FromSlot,
    Heartbeat,
    Register,
    SlotFailed,
    SlotReport,
    ToTask,
)
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import (
    Cancel,
    ControlEffect,
    Event,
    Peers,
    SampledStack,
    SampleStacks,
    Senders,
    StacksSampled,
    WriteSnapshot,
)
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.slot_lifecycle import SlotLifecycle
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.engine.stores.chosen import stores_of
from penstock.hosts.spark.payload import Payload
from penstock.hosts.spark.worker.core_wait import core_wait
from penstock.hosts.spark.worker.event_loop import EventLoops
from penstock.hosts.spark.worker.interrupt import Interrupt
from penstock.hosts.spark.worker.mailbox import Mailbox
from penstock.hosts.spark.worker.notices import ReaderNotices
from penstock.hosts.spark.worker.reports import reports_of
from penstock.hosts.spark.worker.side_channel import SideChannel, WorkerChannel
from penstock.hosts.spark.worker.snapshot_thread import SnapshotThread
from penstock.hosts.spark.worker.spill_file import TemporarySpill
from penstock.hosts.spark.worker.stack_sampler import StackSampler
from penstock.hosts.spark.worker.task_log import TaskLog

_log = logging.getLogger(__name__)


class SlotHost:
    """Belongs to the main thread of a worker. `ring`, which any thread may call, wakes that thread.

    `former`: how the worker before this one has ended, or empty.
    """

    def __init__(
        self,
        payload: Payload,
        level: LevelSpec,
        index: int,
        *,
        ring: Callable[[], None],
        channel: WorkerChannel,
        log: TaskLog,
        interrupt: Interrupt,
        former: str = "",
    ) -> None:
        self._level = level
        self._index = index
        self._ring = ring
        self._channel = channel
        self._log = log
        self._interrupt = interrupt
        self._former = former
        self._life = SlotLifecycle(level.attempt, self, partial(interrupt.allowed, index))
        self._waiting: tuple[str, int] | None = None
        self._fault: BaseException | None = None
        self._side_channel: SideChannel | None = None
        self.stops = False
        """Whether the slot is to stop now, whatever it waits for."""
        assert payload.control is not None and payload.checkpoints is not None
        self._storage = DirectoryStorage(payload.checkpoints, epoch=level.epoch)
        self._snapshots = SnapshotThread(self._storage, ring, self.fail)
        self._event_loops = EventLoops(ring)
        self._notices = ReaderNotices(ring)
        self._stacks = StackSampler(index, self._sampled)
        self._mailbox = Mailbox()
        self._client = ControlClient(
            payload.control, self._on_message, self._next_heartbeat, payload.heartbeat_ms, self.fail
        )

    # What the worker asks for.

    def open(self) -> None:
        """Create the tasks, restore their state and open them."""
        self._life.open(self._create, self._restore)

    def abandon(self) -> None:
        """Close the functions that are open."""
        self._life.abandon()

    def close(self) -> None:
        """Send what is left for the job master. The channel of the worker is closed before; the process ends next."""
        if self._side_channel is not None:
            self._side_channel.close()
        self._client.close()

    def work(self) -> bool:
        """Handle control messages, then do one step. Returns whether the slot has more work now."""
        fault, self._fault = self._fault, None
        if fault is not None:
            self._life.fail(fault)
        while self._client.received:
            message, arrived_ns = self._client.received.popleft(), self._client.arrived_ns.popleft()
            self._mailbox.handled(arrived_ns, time.monotonic_ns())
            assert isinstance(message, ToTask)
            self._life.control(message.attempt, message.vertex, message.event)
        if self._side_channel is not None:
            self._life.receive_advice(self._side_channel.arrived_advice())
        return self._life.step(self._outcomes)

    def take_rows(self) -> list[tuple[int, bytes]]:
        """Return the rows that it sends, by slot of the next level; none if its tasks are closed or have failed."""
        slot = self._life.slot
        rows = slot.outbox.take() if slot is not None else []
        return [] if self._life.discarding else rows

    def receive(self, buffers: Iterable[bytes]) -> None:
        """Take the rows that have arrived for it."""
        self._life.receive(buffers)

    def receive_feedback(self) -> bool:
        """Take what was fed back. Returns whether there was something."""
        slot = self._life.slot
        if self._side_channel is None or slot is None or slot.waiting:
            return False
        return self._life.receive_feedback(self._side_channel.take)

    @property
    def is_active(self) -> bool:
        """Whether its tasks run: they were created, and are neither closed nor have failed."""
        return self._life.slot is not None and not self._life.discarding

    @property
    def discards(self) -> bool:
        """Whether what it sends and is sent is dropped."""
        return self._life.discarding

    @property
    def has_messages(self) -> bool:
        """Whether messages of the job master wait to be handled."""
        return bool(self._client.received)

    @property
    def waits(self) -> bool:
        """Whether it takes no rows now: it holds, or a call must end first."""
        slot = self._life.slot
        return slot is not None and not self._life.discarding and slot.waiting

    @property
    def has_advice(self) -> bool:
        """Whether advice has arrived that was not taken yet."""
        return self._side_channel is not None and self._side_channel.has_advice

    def wake_at_ms(self) -> int | None:
        """Return when a step is due without input (ms), or None."""
        slot = self._life.slot
        return slot.wake_at_ms() if slot is not None and not self._life.discarding else None

    def wait_begins(self, what: str, since_ns: int) -> None:
        """The worker waits from now on. `what`: the counter of tasks that has the time, back_pressured_ns or idle_ns.

        Idle time of a slot that holds is back pressure, too.
        """
        slot = self._life.slot
        if what == "idle_ns" and slot is not None and slot.holds:
            what = "back_pressured_ns"
        self._waiting = what, since_ns

    def wait_ends(self) -> None:
        """Count the wait that is over as idle or back-pressured time of each task."""
        assert self._waiting is not None
        (what, since_ns), self._waiting = self._waiting, None
        ns = time.monotonic_ns() - since_ns
        slot = self._life.slot
        if slot is not None:
            (slot.was_idle if what == "idle_ns" else slot.back_pressured)(ns)

    def _create(self) -> Slot:
        if self._former:
            # What that one had sent and received may be lost: the attempt fails. This is why.
            raise TaskLostError(self._former)
        stores = stores_of(self._level.store_settings)
        environment = Environment(
            now_ms,
            time.monotonic_ns,
            run=f"{os.getpid()}-{self._index}",
            stores=stores,
            open_spill=TemporarySpill,
            open_event_loop=self._event_loops.open,
            notify=self._notices.notify,
            core_wait_ns=core_wait(),
        )
        return Slot(self._level, self._index, environment)

    def _restore(self, slot: Slot) -> None:
        if not self._level.restore:
            return
        began = time.monotonic()
        restored_bytes = slot.restore(self._storage)
        files = sum(task.counters.restored_files for task in slot.tasks.values())
        took_s = time.monotonic() - began
        _log.info("restored %d bytes of state from %d files in %.1f s", restored_bytes, files, took_s)

    def _outcomes(self) -> Iterable[tuple[int, Event]]:
        """Of what threads do for the slot: snapshots that were written, calls that have ended."""
        while self._snapshots.answers:
            yield self._snapshots.answers.popleft()
        yield from self._event_loops.take()
        yield from self._notices.take()

    # What other threads do.

    def fail(self, error: BaseException) -> None:
        """Fail the slot with its next turn: another thread, which calls this, can't do its part any more."""
        self._fault = error
        self._ring()

    def _on_message(self, message: FromJobMaster) -> None:
        """The control thread's: wake the slot, and take it out of a user's function that does not return."""
        self._ring()
        if isinstance(message, ToTask) and isinstance(message.event, Cancel):
            self.stops = True
            self._interrupt.soon(self._index)
        elif isinstance(message, ToTask) and isinstance(message.event, SampleStacks):
            # Here: the slot's own thread may be in a function that does not return.
            self._stacks.begin(message.vertex, message.event)

    def _sampled(self, vertex: int, sample: int, stacks: list[SampledStack]) -> None:
        """Another thread's: it has found the slot's thread so often at each of these."""
        self._client.send_beside(self._from_slot(StacksSampled(vertex, self._index, sample, stacks)))

    # What the slot asks for: SlotEffects.

    def created(self) -> None:
        self._report(self._heartbeat())

    def introduced(self, peers: Peers | Senders) -> None:
        if self._side_channel is not None:
            self._side_channel.introduced(peers.slots)

    def advise(self, advice: list[tuple[SlotId, bytes]]) -> None:
        if self._side_channel is not None:
            self._side_channel.advise(advice)

    def feed_back(self, buffers: list[tuple[SlotId, bytes]]) -> None:
        if self._side_channel is not None:
            self._side_channel.feed_back(buffers, lambda: self.stops)

    def opened(self) -> None:
        slot = self._life.slot
        if slot is not None and SideChannel.is_needed(slot):
            self._side_channel = SideChannel(slot, self._channel, self._ring)
        self._report(Register(self._side_channel.address if self._side_channel is not None else ""))

    def failed(self, error: BaseException) -> None:
        # What it logged before is what explains it, and Spark may end this process at once.
        if lines := self._log.take_far(self._index):
            self._report(Heartbeat([], log=lines))
        self._report(SlotFailed(*describe(error)))

    def not_cancelled(self, error: BaseException) -> None:
        pass

    def counters(self) -> None:
        self._report(self._heartbeat())

    def closed(self) -> None:
        self._snapshots.end()

    def write(self, effect: WriteSnapshot) -> None:
        self._snapshots.write(effect.vertex, effect.snapshot)

    def report(self, effect: ControlEffect) -> None:
        self._report(effect)

    def _report(self, report: SlotReport) -> None:
        self._client.send(self._from_slot(report))

    def _from_slot(self, report: SlotReport) -> FromSlot:
        return FromSlot(self._level.attempt, self._level.level, self._index, report)

    def _next_heartbeat(self, sent: int) -> FromSlot:
        return self._from_slot(self._heartbeat(sent))

    def _heartbeat(self, sent: int | None = None) -> Heartbeat:
        slot = self._life.slot
        now_ns = time.monotonic_ns()
        reports = reports_of(slot, now_ns) if slot is not None else []
        mails = self._mailbox.figures(len(self._client.received))
        reports = [msgspec.structs.replace(report, **mails) for report in reports]
        waiting = self._waiting
        if waiting is not None:
            # A slot may be back-pressured for minutes: the time is reported while it lasts.
            what, since_ns = waiting
            ns = max(0, now_ns - since_ns)
            reports = [msgspec.structs.replace(report, **{what: getattr(report, what) + ns}) for report in reports]
        return Heartbeat(reports, sent, self._log.take_far(self._index))
