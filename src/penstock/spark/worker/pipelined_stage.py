"""The host of a slot in pipelined mode: a generator inside `mapInArrow` that runs as long as the job.

It must not return before Spark ends the query: Spark's task would wait for the end of its input, which never comes. So
a slot that is closed, or has failed, goes on reading and discards its input. What happens to the slot when is the same
for all hosts: runtime/task/slot_lifecycle.py.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec
import pyarrow as pa

from penstock.checkpoint.storage import DirectoryStorage
from penstock.common.errors import TaskLostError
from penstock.common.spark_transport import SparkTransport
from penstock.common.user_calls import RAISED
from penstock.common.wall_clock import now_ms
from penstock.rpc.client import ControlClient
from penstock.rpc.failures import describe
from penstock.rpc.messages import (
    FromJobMaster,
    FromSlot,
    Heartbeat,
    Register,
    SlotFailed,
    SlotReport,
    ToTask,
)
from penstock.runtime.ids import SlotId
from penstock.runtime.network.buffer import PUSH
from penstock.runtime.task.environment import Environment
from penstock.runtime.task.events import (
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
from penstock.runtime.task.slot import Slot
from penstock.runtime.task.slot_lifecycle import SlotLifecycle
from penstock.spark.internals.worker_streams import WorkerStreams
from penstock.spark.payload import Payload, unpack
from penstock.spark.rows import buffers_of
from penstock.spark.worker.children import end_children
from penstock.spark.worker.core_wait import core_wait
from penstock.spark.worker.crash_reports import end_of_former, remove_note, write_note
from penstock.spark.worker.event_loop import EventLoops
from penstock.spark.worker.garbage import GarbageCollection
from penstock.spark.worker.hangup import watch_for_hangup
from penstock.spark.worker.interrupt import Interrupt
from penstock.spark.worker.iterators import IteratorTransport
from penstock.spark.worker.mailbox import Mailbox
from penstock.spark.worker.notices import ReaderNotices
from penstock.spark.worker.pipes import PipeTransport
from penstock.spark.worker.pushes import PUSH_NS, Pushes
from penstock.spark.worker.randomness import reseed
from penstock.spark.worker.reports import reports_of
from penstock.spark.worker.side_channel import SideChannel
from penstock.spark.worker.snapshot_thread import SnapshotThread
from penstock.spark.worker.spill_file import TemporarySpill
from penstock.spark.worker.stack_sampler import StackSampler
from penstock.spark.worker.task_log import TaskLog
from penstock.spark.worker.transport import Transport
from penstock.stores.chosen import stores_of

_log = logging.getLogger(__name__)

_SWITCH_SECONDS = 0.0005


def pipelined_stage(payload: Payload) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of a stage, for `mapInArrow`: it hosts the slot of its partition, over the payload's transport."""
    streams = WorkerStreams() if payload.transport is SparkTransport.PIPES else None

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        transport: Transport
        if streams is not None and streams.claimed:
            transport = PipeTransport(*streams.take())
        else:
            transport = IteratorTransport(batches)
        yield from SlotHost(payload, context.partitionId(), transport).run()

    return stage


class SlotHost:
    """Drives one slot in the main thread of its worker: rows and control messages in, rows out.

    Each turn of the loop handles what the control thread has received, lets the slot do one step, writes the rows that
    have become due, and reads one batch if the slot has nothing else to do.
    """

    def __init__(self, payload: Payload, index: int, transport: Transport) -> None:
        # A thread that computes gives way after this time. With Python's 5 ms, control messages would wait that long.
        sys.setswitchinterval(_SWITCH_SECONDS)
        # Before modules of the job are imported: they may keep standard error, or configure logging.
        self._log = TaskLog(payload.logs, payload.number, index)
        self._log.open()
        reseed()
        self._level = unpack(payload)
        self._index = index
        write_note(self._level, index)
        self._transport = transport
        timeouts_ms = [vertex.buffer_timeout_ms for vertex in self._level.vertices]
        self._pushes = Pushes(at_once=min(timeouts_ms, default=0) * 1_000_000 > PUSH_NS)
        self._garbage = GarbageCollection(time.monotonic_ns())
        self._interrupt = Interrupt()
        self._life = SlotLifecycle(self._level.attempt, self, self._interrupt.allowed)
        self._waiting: tuple[str, int] | None = None
        self._fault: BaseException | None = None
        # Before the control client and users' functions open sockets: those that exist now are Spark's.
        watch_for_hangup(self._stop_soon)
        self._side_channel: SideChannel | None = None
        self._stops = False
        """Whether the slot is to stop now: whatever it waits for is waited for no more."""
        assert payload.control is not None and payload.checkpoints is not None
        self._storage = DirectoryStorage(payload.checkpoints, epoch=self._level.epoch)
        self._keys = payload.control
        self._snapshots = SnapshotThread(self._storage, self._transport.ring, self._fail)
        self._event_loops = EventLoops(self._transport.ring)
        self._notices = ReaderNotices(self._transport.ring)
        self._stacks = StackSampler(self._sampled)
        self._mailbox = Mailbox()
        self._client = ControlClient(
            payload.control, self._on_message, self._next_heartbeat, payload.heartbeat_ms, self._fail
        )

    def run(self) -> Iterator[pa.RecordBatch]:
        """Run until Spark ends the query, then end the process. What is yielded, PySpark writes."""
        self._life.open(self._create, self._restore)
        while not self._transport.ended:
            busy = self._work()
            rows = self._life.slot.outbox.take() if self._life.slot is not None else []
            now_ns = time.monotonic_ns()
            rows.extend((target, PUSH) for target in self._pushes.due(rows, now_ns, busy))
            if rows and not self._life.discarding:
                self._waiting = ("back_pressured_ns", now_ns)
                try:
                    yield from self._transport.write(rows)
                except (OSError, GeneratorExit):
                    # Spark has ended the query: the pipe is closed, or PySpark has failed to write what was yielded.
                    break
                self._account()
            self._take_input(busy)
        self._leave()

    def _leave(self) -> None:
        """End this process: the query is over, and PySpark would fail to write to its closed pipe, with a traceback."""
        self._life.abandon()
        if self._side_channel is not None:
            self._side_channel.close()
        self._client.close()
        with contextlib.suppress(*RAISED):
            end_children()
        self._log.close()
        sys.stdout.flush()
        sys.stderr.flush()
        remove_note()
        os._exit(0)

    def _create(self) -> Slot:
        if former := end_of_former(self._level, self._index):
            # What that one had sent and received may be lost: the attempt fails. This is why.
            raise TaskLostError(former)
        stores = stores_of(self._level.store_settings)
        environment = Environment(
            now_ms,
            time.monotonic_ns,
            run=str(os.getpid()),
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

    def _work(self) -> bool:
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

    def _outcomes(self) -> Iterable[tuple[int, Event]]:
        """Of what threads do for the slot: snapshots that were written, calls that have ended."""
        while self._snapshots.answers:
            yield self._snapshots.answers.popleft()
        yield from self._event_loops.take()
        yield from self._notices.take()

    def _fail(self, error: BaseException) -> None:
        """Another thread's: it can't do its part any more."""
        self._fault = error
        self._transport.ring()

    def _on_message(self, message: FromJobMaster) -> None:
        """The control thread's: wake the slot, and take it out of a user's function that does not return."""
        self._transport.ring()
        if isinstance(message, ToTask) and isinstance(message.event, Cancel):
            self._stop_soon()
        elif isinstance(message, ToTask) and isinstance(message.event, SampleStacks):
            # Here: the slot's own thread may be in a function that does not return.
            self._stacks.begin(message.vertex, message.event)

    def _sampled(self, vertex: int, sample: int, stacks: list[SampledStack]) -> None:
        """Another thread's: it has found the slot's thread so often at each of these."""
        self._client.send_beside(self._from_slot(StacksSampled(vertex, self._index, sample, stacks)))

    def _stop_soon(self) -> None:
        """Another thread's: the slot is to stop, whatever it is about."""
        self._stops = True
        self._interrupt.soon()

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
            self._side_channel.feed_back(buffers, lambda: self._stops)

    def opened(self) -> None:
        slot = self._life.slot
        if slot is not None and SideChannel.is_needed(slot):
            self._side_channel = SideChannel(slot, self._keys, self._transport.ring, self._fail)
        self._report(Register(self._side_channel.address if self._side_channel is not None else ""))

    def failed(self, error: BaseException) -> None:
        # What it logged before is what explains it, and Spark may end this process at once.
        if lines := self._log.take_far():
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

    def _take_input(self, busy: bool) -> None:
        """Read one batch, and wait for it no longer than until the next timer or push; not at all while `busy`."""
        before = time.monotonic_ns()
        # Not even what has arrived: what is not read holds back its senders.
        if busy or self._client.received:
            self._garbage.waited(before, 0)
            return
        # What comes by rows and what is fed back have turns: neither holds up the other, nor a barrier.
        fed = self._receive_feedback()
        timeout_ns = 0 if fed else self._timeout_ns(before)
        batch = None
        slot = self._life.slot
        holds = slot is not None and slot.holds
        self._waiting = ("back_pressured_ns" if holds else "idle_ns", before)
        if slot is not None and not self._life.discarding and slot.waiting:
            # As little as while it is busy.
            advised = self._side_channel is not None and self._side_channel.has_advice
            self._transport.wait(0 if advised else timeout_ns)
        else:
            batch = self._transport.read(timeout_ns)
        self._account()
        after = time.monotonic_ns()
        self._garbage.waited(after, after - before)
        if batch is not None:
            self._life.receive(buffers_of(batch))

    def _receive_feedback(self) -> bool:
        """Take what was fed back. True: there was something."""
        slot = self._life.slot
        if self._side_channel is None or slot is None or slot.waiting:
            return False
        return self._life.receive_feedback(self._side_channel.take)

    def _timeout_ns(self, now_ns: int) -> int | None:
        if self._life.discarding or self._life.slot is None:
            return None
        times = []
        wake_at_ms = self._life.slot.wake_at_ms()
        if wake_at_ms is not None:
            times.append(wake_at_ms * 1_000_000 - time.time_ns())
        push_ns = self._pushes.next_ns()
        if push_ns is not None:
            times.append(push_ns - now_ns)
        return max(min(times), 0) if times else None

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
        return Heartbeat(reports, sent, self._log.take_far())

    def _account(self) -> None:
        """A wait is over: count it as idle or back-pressured time of each task of the slot."""
        assert self._waiting is not None
        (what, since_ns), self._waiting = self._waiting, None
        ns = time.monotonic_ns() - since_ns
        slot = self._life.slot
        if slot is not None:
            (slot.was_idle if what == "idle_ns" else slot.back_pressured)(ns)
