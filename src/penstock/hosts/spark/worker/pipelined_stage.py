"""The host of a worker in pipelined mode: a generator inside `mapInArrow` that runs as long as the job.

It must not return before Spark ends the query: Spark's task would wait for the end of its input, which never comes. So
a worker whose slots are closed, or have failed, continues to read, and discards its input. A worker hosts one slot, or
several slots that share its thread, its input and its output (engine/runtime/task/worker_slots.py).
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
from penstock.engine.runtime.network.worth import Price
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
from penstock.engine.state.memory_budget import MemoryBudget
from penstock.engine.stores.chosen import stores_of
from penstock.hosts.spark.internals.worker_streams import WorkerStreams
from penstock.hosts.spark.payload import Payload, unpack, unpack_again
from penstock.hosts.spark.rows import buffers_of
from penstock.hosts.spark.worker.allocator import keep_freed_memory
from penstock.hosts.spark.worker.available_memory import available_memory
from penstock.hosts.spark.worker.children import end_children
from penstock.hosts.spark.worker.crash_reports import previous_report, remove_note, write_note
from penstock.hosts.spark.worker.event_loop import EventLoops, ReaderNotices
from penstock.hosts.spark.worker.garbage import GarbageCollection
from penstock.hosts.spark.worker.hangup import watch_for_hangup
from penstock.hosts.spark.worker.interrupt import Interrupt
from penstock.hosts.spark.worker.randomness import reseed
from penstock.hosts.spark.worker.reports import reports_of
from penstock.hosts.spark.worker.shared_memory import FileMemory
from penstock.hosts.spark.worker.side_channel import SideChannel, WorkerChannel
from penstock.hosts.spark.worker.snapshot_thread import SnapshotThread
from penstock.hosts.spark.worker.spill_file import TemporarySpill
from penstock.hosts.spark.worker.stack_sampler import StackSampler
from penstock.hosts.spark.worker.task_log import TaskLog
from penstock.hosts.spark.worker.transport import IteratorTransport, PipeTransport, Transport

_log = logging.getLogger(__name__)


class SlotHost:
    """Host one slot: its threads, its connection to the JobMaster, its channel to other slots.

    Belongs to the main thread of a worker, which moves the rows of all its slots (`WorkerHost`). The order of a slot's
    work is the same for all hosts: engine/runtime/task/slot.py. `ring` wakes the main thread, and may be called by any
    thread. `previous_crash`: the crash report of the previous worker of the slot, or "".
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
        previous_crash: str = "",
    ) -> None:
        self._level = level
        self._index = index
        self._ring = ring
        self._channel = channel
        self._log = log
        self._interrupt = interrupt
        self._previous_crash = previous_crash
        self._life = SlotLifecycle(level.attempt, self, partial(interrupt.allowed, index))
        self._waiting: tuple[str, int] | None = None
        self._fault: BaseException | None = None
        self._side_channel: SideChannel | None = None
        self.is_stopping = False
        """Whether the slot must stop now, and wait for no other slot."""
        assert payload.control is not None and payload.checkpoints is not None
        self._storage = DirectoryStorage(payload.checkpoints, epoch=level.epoch)
        self._snapshots = SnapshotThread(self._storage, ring, self.fail)
        self._event_loops = EventLoops(ring)
        self._notices = ReaderNotices(ring)
        self._stacks = StackSampler(index, self._sampled)
        self._mailbox = Mailbox()
        self._client = ControlClient(
            payload.control,
            self._on_message,
            self._next_heartbeat,
            payload.heartbeat_ms,
            on_failure=self.fail,
        )

    # Called by the worker.

    def open(self) -> None:
        """Create the tasks, restore their state and open them."""
        self._life.open(self._create, self._restore)

    def abandon(self) -> None:
        """Close the open functions."""
        self._life.abandon()

    def close(self) -> None:
        """Send the remaining messages to the JobMaster, after the worker's channel is closed and before its exit."""
        if self._side_channel is not None:
            self._side_channel.close()
        self._client.close()

    def work(self) -> bool:
        """Handle control messages, then do one step. Returns whether more work can be done now."""
        fault, self._fault = self._fault, None
        if fault is not None:
            self._life.fail(fault)
        while self._client.received:
            message, arrived_ns = self._client.received.popleft(), self._client.arrived_ns.popleft()
            self._mailbox.note_handled(arrived_ns, time.monotonic_ns())
            assert isinstance(message, ToTask)
            self._life.control(message.attempt, message.vertex, message.event)
        if self._side_channel is not None:
            self._life.receive_advice(self._side_channel.arrived_advice())
        return self._life.step(self._outcomes)

    def take_rows(self) -> list[tuple[int, bytes]]:
        """Remove and return the rows to send, with their slots. Empty if the tasks are closed or have failed."""
        slot = self._life.slot
        rows = slot.outbox.take() if slot is not None else []
        return [] if self._life.discarding else rows

    def set_price(self, price: Price) -> None:
        """Set the price of the bytes of the rows to send."""
        if self._life.slot is not None:
            self._life.slot.outbox.price = price

    def receive(self, buffers: Iterable[bytes]) -> None:
        """Process buffers that have arrived for the slot."""
        self._life.receive(buffers)

    def receive_feedback(self) -> bool:
        """Process feedback. Returns whether there was any."""
        slot = self._life.slot
        if self._side_channel is None or slot is None or slot.waiting:
            return False
        return self._life.receive_feedback(self._side_channel.take)

    @property
    def is_active(self) -> bool:
        """Return whether the tasks run: they were created, are not closed, and have not failed."""
        return self._life.slot is not None and not self._life.discarding

    @property
    def is_discarding(self) -> bool:
        """Return whether input and output are discarded."""
        return self._life.discarding

    @property
    def has_messages(self) -> bool:
        """Return whether messages of the JobMaster have arrived."""
        return bool(self._client.received)

    @property
    def is_waiting(self) -> bool:
        """Return whether the slot accepts no rows now: it holds back its output, or waits for an asynchronous call."""
        slot = self._life.slot
        return slot is not None and not self._life.discarding and slot.waiting

    @property
    def has_advice(self) -> bool:
        """Return whether unread advice has arrived."""
        return self._side_channel is not None and self._side_channel.has_advice

    def wake_at_ms(self) -> int | None:
        """Return the time of the next step that is due without input, or None."""
        slot = self._life.slot
        return slot.wake_at_ms() if slot is not None and not self._life.discarding else None

    def begin_wait(self, what: str, since_ns: int) -> None:
        """Note that the worker starts to wait. `what`: the counter for the time, back_pressured_ns or idle_ns.

        Idle time of a slot that holds back its output counts as back pressure.
        """
        slot = self._life.slot
        if what == "idle_ns" and slot is not None and slot.is_throttled:
            what = "back_pressured_ns"
        self._waiting = what, since_ns

    def end_wait(self) -> None:
        """Add the time of the wait to the counters of each task."""
        assert self._waiting is not None
        (what, since_ns), self._waiting = self._waiting, None
        ns = time.monotonic_ns() - since_ns
        slot = self._life.slot
        if slot is not None:
            (slot.was_idle if what == "idle_ns" else slot.back_pressured)(ns)

    def _create(self) -> Slot:
        if self._previous_crash:
            # Messages from and to that worker may be lost, so the attempt must fail. This is the reason.
            raise TaskLostError(self._previous_crash)
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
            memory=MemoryBudget(self._level.slot_memory_bytes, available_memory),
        )
        return Slot(self._level, self._index, environment)

    def _restore(self, slot: Slot) -> None:
        if not self._level.restore:
            return
        started_s = time.monotonic()
        restored_bytes = slot.restore(self._storage)
        files = sum(task.counters.restored_files for task in slot.tasks.values())
        elapsed_s = time.monotonic() - started_s
        _log.info("restored %d bytes of state from %d files in %.1f s", restored_bytes, files, elapsed_s)

    def _outcomes(self) -> Iterable[tuple[int, Event]]:
        """Yield the outcomes of other threads' work: written snapshots, completed calls, notices of readers."""
        while self._snapshots.answers:
            yield self._snapshots.answers.popleft()
        yield from self._event_loops.take()
        yield from self._notices.take()

    # Called by other threads.

    def fail(self, error: BaseException) -> None:
        """Fail the slot in its next turn, because the calling thread has failed."""
        self._fault = error
        self._ring()

    def _on_message(self, message: FromJobMaster) -> None:
        """Wake the slot for a message, on the control thread. Interrupt a user's function if the task is canceled."""
        self._ring()
        if isinstance(message, ToTask) and isinstance(message.event, Cancel):
            self.is_stopping = True
            self._interrupt.soon(self._index)
        elif isinstance(message, ToTask) and isinstance(message.event, SampleStacks):
            # On this thread: the slot's thread may be in a function that does not return.
            self._stacks.begin(message.vertex, message.event)

    def _sampled(self, vertex: int, sample: int, stacks: list[SampledStack]) -> None:
        """Send sampled stacks, on the sampling thread."""
        self._client.send_from_other_thread(self._from_slot(StacksSampled(vertex, self._index, sample, stacks)))

    # Called by the slot: SlotEffects.

    def created(self) -> None:
        self._report(self._heartbeat())

    def peers_known(self, peers: Peers | Senders) -> None:
        if self._side_channel is not None:
            self._side_channel.peers_known(peers.slots)

    def advise(self, advice: list[tuple[SlotId, bytes]]) -> None:
        if self._side_channel is not None:
            self._side_channel.advise(advice)

    def feed_back(self, buffers: list[tuple[SlotId, bytes]]) -> None:
        if self._side_channel is not None:
            self._side_channel.feed_back(buffers)

    def opened(self) -> None:
        slot = self._life.slot
        if slot is not None and SideChannel.is_needed(slot):
            self._side_channel = SideChannel(slot, self._channel, self._ring)
        self._report(Register(self._side_channel.address if self._side_channel is not None else ""))

    def failed(self, error: BaseException) -> None:
        # Send the log lines first: they explain the failure, and Spark may end this process immediately after it.
        if lines := self._log.drain_remote_lines(self._index):
            self._report(Heartbeat([], log=lines))
        self._report(SlotFailed(*describe(error)))

    def cancel_failed(self, error: BaseException) -> None:
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
            # A wait may take minutes: report its time while it lasts.
            what, since_ns = waiting
            ns = max(0, now_ns - since_ns)
            reports = [msgspec.structs.replace(report, **{what: getattr(report, what) + ns}) for report in reports]
        return Heartbeat(reports, sent, self._log.drain_remote_lines(self._index))


_LATENCIES_MAX = 60
"""The number of latencies for mean and maximum, as in Flink."""


class Mailbox:
    """Measure how long messages of the JobMaster wait until the slot's thread handles them.

    The tasks of a slot share it. Written by the slot's thread, read by any thread. Flink: TaskIOMetricGroup, mailbox.
    """

    def __init__(self) -> None:
        self._handled = 0
        self._latencies_ns: deque[int] = deque(maxlen=_LATENCIES_MAX)

    def note_handled(self, arrived_ns: int, now_ns: int) -> None:
        """Count a message that arrived at `arrived_ns` and is handled now."""
        self._handled += 1
        self._latencies_ns.append(max(0, now_ns - arrived_ns))

    def figures(self, waiting: int) -> dict[str, int | float]:
        """Return fields of a TaskReport. `waiting`: the number of messages that wait now."""
        latencies = tuple(self._latencies_ns)
        return {
            "mails": self._handled,
            "mails_waiting": waiting,
            "mail_latency_mean_ms": sum(latencies) / max(1, len(latencies)) / 1e6,
            "mail_latency_max_ms": max(latencies, default=0) / 1e6,
        }


PUSH_NS = 1_000_000


class Pushes:
    """Decide which targets need a push: an empty row that makes Spark deliver the row before it.

    The JVM of a reading worker fetches the next row before it passes a row on. So it delivers the last row of a burst
    only when another row arrives for that reader. If a slot writes nothing to a target for a millisecond after a
    buffer, it writes an empty row to that target. This costs nothing while data flows continuously, or not at all.

    `immediate`: a slot without more work need not wait for a millisecond, because its buffer timeout is longer. The
    push then goes into one batch with the buffer. docs/internals/decisions/0007-pushes.md has the figures.
    """

    def __init__(self, immediate: bool) -> None:
        # Target -> time of its last row, in nanoseconds. Dicts keep the order of insertion, so the oldest is first.
        self._written: dict[int, int] = {}
        self._immediate = immediate

    def due(self, rows: Iterable[tuple[int, bytes]], now_ns: int, busy: bool) -> list[int]:
        """Return the targets to push together with `rows`, which are about to be written, and forget these targets."""
        written = self._written
        for target, _ in rows:
            # Remove and insert: this moves the target to the end of the order.
            written.pop(target, None)
            written[target] = now_ns
        if self._immediate and not busy:
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
        """Return when the next push is due, in monotonic nanoseconds; None if no target needs one."""
        return next(iter(self._written.values())) + PUSH_NS if self._written else None


SCHEDSTAT = "/proc/thread-self/schedstat"
_BYTES_MAX = 96


def core_wait(schedstat: str = SCHEDSTAT) -> Callable[[], int]:
    """Return a function that measures how long the thread that calls `core_wait` has waited for a core.

    The function returns nanoseconds in total, or always 0 if the system does not count them. A call takes one to two
    microseconds. Source: Linux, Documentation/scheduler/sched-stats.rst: time on the processor, time in the queue,
    turns.
    """
    try:
        # The file is closed when the function is deleted, together with its slot.
        file = io.FileIO(schedstat)
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
    """Return the function of a stage for `mapInArrow`. It hosts the slots of its partition, by the given transport."""
    streams = WorkerStreams() if payload.transport is SparkTransport.PIPES else None

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        transport: Transport
        if streams is not None and streams.claimed:
            transport = PipeTransport(*streams.find())
        else:
            transport = IteratorTransport(batches)
        yield from WorkerHost(payload, context.partitionId(), transport).run()

    return stage


class WorkerHost:
    """Drive the slots of one worker in its main thread: rows and control messages in, rows out.

    In each turn of the loop, every slot handles its control messages and does one step; then the worker writes rows,
    and reads one batch if no slot has other work.
    """

    def __init__(self, payload: Payload, worker: int, transport: Transport) -> None:
        # A computing thread releases the interpreter's lock after this time. With Python's 5 ms, control messages would
        # wait that long.
        sys.setswitchinterval(_SWITCH_SECONDS)
        keep_freed_memory()
        slots = payload.slots_of(worker)
        # Open the log before modules of the job are imported: they may store standard error, or configure logging.
        self._log = TaskLog(payload.logs, payload.number, slots)
        self._log.open()
        reseed()
        level = unpack(payload)
        write_note(level, slots)
        self._transport = transport
        timeouts_ms = [vertex.buffer_timeout_ms for vertex in level.vertices]
        self._pushes = Pushes(immediate=min(timeouts_ms, default=0) * 1_000_000 > PUSH_NS)
        self._garbage = GarbageCollection(time.monotonic_ns())
        self._interrupt = Interrupt()
        self._memory = FileMemory(level.claims) if level.claims is not None else None
        self._routes = WorkerRoutes(level, worker, self._memory)
        self._slots: dict[int, SlotHost] = {}
        self._hosts: list[SlotHost] = []
        # Call this before control clients and users' functions open sockets: all present sockets are Spark's.
        watch_for_hangup(self._stop_soon)
        previous_crash = previous_report(level, slots)
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
                previous_crash=previous_crash,
            )
            self._slots[slot] = host
            self._hosts.append(host)

    def run(self) -> Iterator[pa.RecordBatch]:
        """Run until Spark ends the query, then end the process. PySpark writes the batches that this yields."""
        for host in self._hosts:
            host.open()
        while not self._transport.ended:
            busy = False
            rows: list[tuple[int, bytes]] = []
            for host in self._hosts:
                busy = host.work() or busy
                rows += host.take_rows()
            self._channel.flush(self._is_stopping)
            rows = self._routes.to_workers(rows)
            for host in self._hosts:
                host.set_price(self._routes.price)
            now_ns = time.monotonic_ns()
            rows.extend((target, PUSH) for target in self._pushes.due(rows, now_ns, busy))
            if rows and not all(host.is_discarding for host in self._hosts):
                self._begin_wait("back_pressured_ns", now_ns)
                try:
                    yield from self._transport.write(rows)
                except (OSError, GeneratorExit):
                    # Spark has ended the query: the pipe is closed, or PySpark has failed to write a batch.
                    break
                self._end_wait()
            self._take_input(busy)
        self._exit()

    def _exit(self) -> None:
        """End this process. The query has ended: PySpark would print a traceback when it writes to the closed pipe."""
        self._remove_memory()
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
        """Stop all slots, and interrupt users' functions. Called by another thread."""
        # Now: a worker that does not stop in time is killed.
        self._remove_memory()
        for host in self._hosts:
            host.is_stopping = True
        self._interrupt.soon()

    def _is_stopping(self) -> bool:
        return any(host.is_stopping for host in self._hosts)

    def _remove_memory(self) -> None:
        """Remove the files of shared memory. Receivers of claims have mapped them before, and keep the memory."""
        if self._memory is not None:
            with contextlib.suppress(OSError):
                self._memory.close()

    def _fail(self, error: BaseException) -> None:
        """Fail all slots, because the calling thread has failed."""
        for host in self._hosts:
            host.fail(error)

    def _take_input(self, busy: bool) -> None:
        """Read one batch. Waits for it at most until the next timer or push; does not read while `busy`."""
        started_ns = time.monotonic_ns()
        # Do not even read batches that have arrived: unread batches are the back pressure on their senders.
        if busy or any(host.has_messages for host in self._hosts):
            self._garbage.waited(started_ns, 0)
            return
        # Feedback and rows alternate: neither delays the other, nor a barrier.
        fed = self._receive_feedback()
        timeout_ns = 0 if fed else self._timeout_ns(started_ns)
        batch = None
        self._begin_wait("idle_ns", started_ns)
        if any(host.is_waiting for host in self._hosts):
            # Do not read here either: a row may be for the waiting slot.
            advised = any(host.has_advice for host in self._hosts)
            self._transport.wait(0 if advised else timeout_ns)
        else:
            batch = self._transport.read(timeout_ns)
        self._end_wait()
        ended_ns = time.monotonic_ns()
        self._garbage.waited(ended_ns, ended_ns - started_ns)
        if batch is not None:
            self._receive(buffers_of(batch))
        elif not fed:
            # Most likely it has woken the worker.
            self._receive_feedback()

    def _receive_feedback(self) -> bool:
        """Pass feedback that has arrived to the slots. Returns whether there was any."""
        fed = False
        for host in self._hosts:
            fed = host.receive_feedback() or fed
        return fed

    def _receive(self, buffers: Iterable[bytes]) -> None:
        """Pass each buffer to its slot."""
        buffers = self._routes.received(buffers)
        if not self._routes.are_shared:
            self._hosts[0].receive(buffers)
            return
        try:
            by_slot = self._routes.by_slot(buffers)
        except TaskLostError as error:
            self._fail(error)
            return
        for slot, buffers_of_slot in by_slot.items():
            self._slots[slot].receive(buffers_of_slot)

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

    def _begin_wait(self, what: str, since_ns: int) -> None:
        for host in self._hosts:
            host.begin_wait(what, since_ns)

    def _end_wait(self) -> None:
        for host in self._hosts:
            host.end_wait()
