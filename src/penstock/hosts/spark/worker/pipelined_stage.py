"""The host of a worker in pipelined mode: a generator inside `mapInArrow` that runs as long as the job.

It must not return before Spark ends the query: Spark's task would wait for the end of its input, which never comes. So
a worker whose slots are closed, or have failed, goes on reading and discards its input. A worker hosts one slot, or
several that share its thread, its input and its output (engine/runtime/task/worker_slots.py).
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec
import pyarrow as pa

from penstock.common.configuration.choices import SparkTransport
from penstock.common.errors import TaskLostError
from penstock.common.functions.user_calls import RAISED
from penstock.common.time.earliest import earliest
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
from penstock.engine.runtime.network.buffer import PUSH
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
from penstock.engine.runtime.task.slot import Slot, SlotLifecycle
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.engine.runtime.task.worker_slots import WorkerRoutes
from penstock.engine.stores.chosen import stores_of
from penstock.hosts.spark.internals.worker_streams import WorkerStreams
from penstock.hosts.spark.payload import Payload, unpack, unpack_again
from penstock.hosts.spark.rows import buffers_of
from penstock.hosts.spark.worker.children import end_children
from penstock.hosts.spark.worker.crash_reports import end_of_former, remove_note, write_note
from penstock.hosts.spark.worker.event_loop import EventLoops, ReaderNotices
from penstock.hosts.spark.worker.garbage import GarbageCollection
from penstock.hosts.spark.worker.hangup import watch_for_hangup
from penstock.hosts.spark.worker.interrupt import Interrupt
from penstock.hosts.spark.worker.randomness import reseed
from penstock.hosts.spark.worker.reports import reports_of
from penstock.hosts.spark.worker.side_channel import SideChannel, WorkerChannel
from penstock.hosts.spark.worker.snapshot_thread import SnapshotThread
from penstock.hosts.spark.worker.spill_file import TemporarySpill
from penstock.hosts.spark.worker.stack_sampler import StackSampler
from penstock.hosts.spark.worker.task_log import TaskLog
from penstock.hosts.spark.worker.transport import IteratorTransport, PipeTransport, Transport

# The host of one slot in pipelined mode: its threads, its connection to the job master, its channel to other slots.
#
# What the slot does when is the same for all hosts: engine/runtime/task/slot.py. The rows come and go by the
# worker, which the slot may share with others: pipelined_stage.py.

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


# How long messages of the job master wait until the slot's thread handles them. Flink: TaskIOMetricGroup, mailbox.

_LATENCIES_MOST = 60
"""As Flink keeps."""


class Mailbox:
    """Of one slot, whose tasks share it. Written by its thread, read by any."""

    def __init__(self) -> None:
        self._handled = 0
        self._latencies_ns: deque[int] = deque(maxlen=_LATENCIES_MOST)

    def handled(self, arrived_ns: int, now_ns: int) -> None:
        """A message that has arrived then is handled now."""
        self._handled += 1
        self._latencies_ns.append(max(0, now_ns - arrived_ns))

    def figures(self, waiting: int) -> dict[str, int | float]:
        """Fields of a TaskReport. `waiting`: how many messages wait now."""
        latencies = tuple(self._latencies_ns)
        return {
            "mails": self._handled,
            "mails_waiting": waiting,
            "mail_latency_mean_ms": sum(latencies) / max(1, len(latencies)) / 1e6,
            "mail_latency_max_ms": max(latencies, default=0) / 1e6,
        }


# Pushes: the empty row that makes Spark deliver the row before it.
#
# The JVM beside a reading worker fetches the next row before it hands a row over. So the last row of a burst is
# delivered only when another row arrives for that reader. A buffer after which nothing is written to its target for a
# millisecond is therefore followed by one empty row to the same target. It costs nothing while data flows, or while
# none does.
#
# A slot that has no work left, and whose buffer timeout is longer than that millisecond, need not wait: the push goes
# out in one batch with the buffer. docs/internals/decisions/0007-pushes.md has the figures.

PUSH_NS = 1_000_000


class Pushes:
    """The targets that need a push, the one written to longest ago first. `at_once`: an idle slot does not wait."""

    def __init__(self, at_once: bool) -> None:
        # Target -> time of its last row, in nanoseconds. Dicts keep the order of insertion: the oldest comes first.
        self._written: dict[int, int] = {}
        self._at_once = at_once

    def due(self, rows: Iterable[tuple[int, bytes]], now_ns: int, busy: bool) -> list[int]:
        """The targets to push together with `rows`, which are about to be written. They need no other push then."""
        written = self._written
        for target, _ in rows:
            # Out and in again: it moves to the end of the order.
            written.pop(target, None)
            written[target] = now_ns
        if self._at_once and not busy:
            due = list(written)
            written.clear()
            return due
        due = []
        for target, at in written.items():
            if now_ns - at < PUSH_NS:
                break
            due.append(target)
        for target in due:
            del written[target]
        return due

    def next_ns(self) -> int | None:
        """When the next push is due, in monotonic nanoseconds; None if no target needs one."""
        return next(iter(self._written.values())) + PUSH_NS if self._written else None


# How long a thread has waited for a core: it had work, and other threads ran.

OF_THIS_THREAD = "/proc/thread-self/schedstat"
_BYTES_MAX = 96


def core_wait(of_this_thread: str = OF_THIS_THREAD) -> Callable[[], int]:
    """A function that tells it of the thread that calls this: nanoseconds, in all. Always 0 where no system counts it.

    Source: Linux, Documentation/scheduler/sched-stats.rst: time on the processor, time in the queue, turns. A call
    costs one to two microseconds.
    """
    try:
        # Closed with the function that holds it, and so with its slot.
        file = io.FileIO(of_this_thread)
    except OSError:
        return lambda: 0

    def waited_ns() -> int:
        return int(os.pread(file.fileno(), _BYTES_MAX, 0).split()[1])

    try:
        waited_ns()
    except (OSError, IndexError, ValueError):
        return lambda: 0
    return waited_ns


_SWITCH_SECONDS = 0.0005


def pipelined_stage(payload: Payload) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of a stage, for `mapInArrow`: it hosts the slots of its partition, over the payload's transport."""
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
        yield from WorkerHost(payload, context.partitionId(), transport).run()

    return stage


class WorkerHost:
    """Drives the slots of one worker in its main thread: rows and control messages in, rows out.

    Each turn of the loop lets every slot handle what its control thread has received and do one step, writes the rows
    that have become due, and reads one batch if no slot has anything else to do.
    """

    def __init__(self, payload: Payload, worker: int, transport: Transport) -> None:
        # A thread that computes gives way after this time. With Python's 5 ms, control messages would wait that long.
        sys.setswitchinterval(_SWITCH_SECONDS)
        slots = payload.slots_of(worker)
        # Before modules of the job are imported: they may keep standard error, or configure logging.
        self._log = TaskLog(payload.logs, payload.number, slots)
        self._log.open()
        reseed()
        level = unpack(payload)
        write_note(level, slots)
        self._transport = transport
        timeouts_ms = [vertex.buffer_timeout_ms for vertex in level.vertices]
        self._pushes = Pushes(at_once=min(timeouts_ms, default=0) * 1_000_000 > PUSH_NS)
        self._garbage = GarbageCollection(time.monotonic_ns())
        self._interrupt = Interrupt()
        self._routes = WorkerRoutes(level)
        self._slots: dict[int, SlotHost] = {}
        self._hosts: list[SlotHost] = []
        # Before control clients and users' functions open sockets: those that exist now are Spark's.
        watch_for_hangup(self._stop_soon)
        former = end_of_former(level, slots)
        assert payload.control is not None
        self._channel = WorkerChannel(payload.control, self._fail)
        for slot in slots:
            host = SlotHost(
                payload,
                level if slot == slots[0] else unpack_again(payload),
                slot,
                ring=transport.ring,
                channel=self._channel,
                log=self._log,
                interrupt=self._interrupt,
                former=former,
            )
            self._slots[slot] = host
            self._hosts.append(host)

    def run(self) -> Iterator[pa.RecordBatch]:
        """Run until Spark ends the query, then end the process. What is yielded, PySpark writes."""
        for host in self._hosts:
            host.open()
        while not self._transport.ended:
            busy = False
            rows: list[tuple[int, bytes]] = []
            for host in self._hosts:
                busy = host.work() or busy
                rows += host.take_rows()
            self._channel.flush()
            rows = self._routes.to_workers(rows)
            now_ns = time.monotonic_ns()
            rows.extend((target, PUSH) for target in self._pushes.due(rows, now_ns, busy))
            if rows and not all(host.discards for host in self._hosts):
                self._wait_begins("back_pressured_ns", now_ns)
                try:
                    yield from self._transport.write(rows)
                except (OSError, GeneratorExit):
                    # Spark has ended the query: the pipe is closed, or PySpark has failed to write what was yielded.
                    break
                self._wait_ends()
            self._take_input(busy)
        self._leave()

    def _leave(self) -> None:
        """End this process: the query is over, and PySpark would fail to write to its closed pipe, with a traceback."""
        for host in self._hosts:
            host.abandon()
        self._channel.close()
        for host in self._hosts:
            host.close()
        with contextlib.suppress(*RAISED):
            end_children()
        self._log.close()
        sys.stdout.flush()
        sys.stderr.flush()
        remove_note()
        os._exit(0)

    def _stop_soon(self) -> None:
        """Stop all slots, whatever they are about. Another thread calls it."""
        for host in self._hosts:
            host.stops = True
        self._interrupt.soon()

    def _fail(self, error: BaseException) -> None:
        """Fail all slots: another thread, which calls this, can't do its part any more."""
        for host in self._hosts:
            host.fail(error)

    def _take_input(self, busy: bool) -> None:
        """Read one batch, and wait for it no longer than until the next timer or push; not at all while `busy`."""
        before = time.monotonic_ns()
        # Not even what has arrived: what is not read holds back its senders.
        if busy or any(host.has_messages for host in self._hosts):
            self._garbage.waited(before, 0)
            return
        # What comes by rows and what is fed back have turns: neither holds up the other, nor a barrier.
        fed = False
        for host in self._hosts:
            fed = host.receive_feedback() or fed
        timeout_ns = 0 if fed else self._timeout_ns(before)
        batch = None
        self._wait_begins("idle_ns", before)
        if any(host.waits for host in self._hosts):
            # As little as while it is busy: a row may be for the slot that waits.
            advised = any(host.has_advice for host in self._hosts)
            self._transport.wait(0 if advised else timeout_ns)
        else:
            batch = self._transport.read(timeout_ns)
        self._wait_ends()
        after = time.monotonic_ns()
        self._garbage.waited(after, after - before)
        if batch is not None:
            self._receive(buffers_of(batch))

    def _receive(self, buffers: Iterable[bytes]) -> None:
        """Hand each row to its slot."""
        if not self._routes.are_shared:
            self._hosts[0].receive(buffers)
            return
        for slot, its_buffers in self._routes.by_slot(buffers).items():
            self._slots[slot].receive(its_buffers)

    def _timeout_ns(self, now_ns: int) -> int | None:
        if not any(host.is_active for host in self._hosts):
            return None
        times = []
        wake_at_ms = earliest(*[host.wake_at_ms() for host in self._hosts])
        if wake_at_ms is not None:
            times.append(wake_at_ms * 1_000_000 - time.time_ns())
        push_ns = self._pushes.next_ns()
        if push_ns is not None:
            times.append(push_ns - now_ns)
        return max(min(times), 0) if times else None

    def _wait_begins(self, what: str, since_ns: int) -> None:
        for host in self._hosts:
            host.wait_begins(what, since_ns)

    def _wait_ends(self) -> None:
        for host in self._hosts:
            host.wait_ends()
