"""The host of a slot in pipelined mode: a generator inside `mapInArrow` that lives as long as the job.

It must not return before Spark ends the query: Spark's task would wait for its input for ever. So a slot that is
closed, or has failed, goes on discarding its input, which also frees whoever is blocked writing to it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec
import pyarrow as pa

from penstock.checkpoint.storage import DirectoryStorage
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
from penstock.runtime.network.buffer import PUSH
from penstock.runtime.task.environment import Environment
from penstock.runtime.task.events import Cancel, Close, ControlEffect, WriteSnapshot
from penstock.runtime.task.slot import Slot
from penstock.spark.payload import Payload, unpack
from penstock.spark.rows import buffers_of, to_batch
from penstock.spark.worker.garbage import GarbageCollection
from penstock.spark.worker.hangup import watch_for_hangup
from penstock.spark.worker.interrupt import Interrupt, Interrupted
from penstock.spark.worker.pipes import Inbox, Outgoing, OwnPipes
from penstock.spark.worker.pushes import PUSH_NS, Pushes
from penstock.spark.worker.reports import reports_of
from penstock.spark.worker.snapshot_thread import SnapshotThread
from penstock.spark.worker.spill_file import TemporarySpill

_SWITCH_SECONDS = 0.0005


def pipelined_stage(payload: Payload) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of a stage."""
    own_pipes = OwnPipes()

    def stage(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from SlotHost(payload, context.partitionId(), *own_pipes.of_worker()).run()

    return stage


class SlotHost:
    """Drives one slot: rows and control messages in, rows out, in the thread that Spark's worker runs."""

    def __init__(self, payload: Payload, index: int, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        # The control thread has to get the interpreter soon, or messages wait for Python's 5 ms while a task computes.
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._level = unpack(payload)
        self._index = index
        self._inbox = Inbox(incoming)
        self._outgoing = Outgoing(outgoing)
        self._slot: Slot | None = None
        timeouts_ms = [vertex.buffer_timeout_ms for vertex in self._level.vertices]
        self._pushes = Pushes(at_once=min(timeouts_ms, default=0) * 1_000_000 > PUSH_NS)
        self._garbage = GarbageCollection(time.monotonic_ns())
        self._discarding = False
        self._interrupt = Interrupt()
        self._waiting: tuple[str, int] | None = None
        watch_for_hangup(self._interrupt.soon)
        assert payload.control is not None and payload.checkpoints is not None
        self._storage = DirectoryStorage(payload.checkpoints)
        self._snapshots = SnapshotThread(self._storage, self._inbox.ring)
        self._client = ControlClient(payload.control, self._on_message, self._next_heartbeat, payload.heartbeat_ms)

    def run(self) -> Iterator[pa.RecordBatch]:
        """The rows of the stage, for as long as the query lives."""
        self._guarded(self._open)
        began = False
        while not self._inbox.ended:
            busy = self._guarded(self._work)
            rows = self._slot.outbox.take() if self._slot is not None else []
            now_ns = time.monotonic_ns()
            rows.extend((target, PUSH) for target in self._pushes.due(rows, now_ns, bool(busy)))
            if rows and not self._discarding:
                self._waiting = ("back_pressured_ns", now_ns)
                if began:
                    try:
                        self._outgoing.write(rows)
                    except OSError:
                        break
                else:
                    yield to_batch(rows)
                    self._outgoing.begun()
                    began = True
                self._account()
            self._take_input(busy=bool(busy))
        self._leave()

    def _leave(self) -> None:
        """Spark has ended the query. Whatever this process still wrote would meet a closed pipe and a traceback."""
        if self._slot is not None and not self._slot.finished:
            self._guarded(self._abandon)
        self._client.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _abandon(self) -> bool:
        assert self._slot is not None
        self._slot.handle_all(Cancel())
        return False

    def _open(self) -> bool:
        # Imported modules may look for their own settings: from here on, this is the job's process.
        stores = None
        if self._level.stored_state is not None:
            from penstock.spark.worker.rocksdb import rocksdb_stores

            stores = rocksdb_stores(self._level.stored_state)
        environment = Environment(
            _now_ms, time.monotonic_ns, run=str(os.getpid()), stores=stores, open_spill=TemporarySpill
        )
        slot = Slot(self._level, self._index, environment)
        self._slot = slot
        if self._level.restore:
            slot.restore(self._storage)
        slot.open()
        self._report(Register(platform.node(), os.getpid()))
        return False

    def _work(self) -> bool:
        """Control messages, then one step. True: there is more to do now."""
        while self._client.received:
            self._handle(self._client.received.popleft())
        if self._discarding or self._slot is None:
            return False
        while self._snapshots.answers:
            self._slot.handle(*self._snapshots.answers.popleft())
        with self._interrupt.allowed():
            busy = self._slot.step()
        self._send_effects()
        return busy

    def _on_message(self, message: FromJobMaster) -> None:
        """The control thread's: wake the slot, and take it out of a user's function that does not return."""
        self._inbox.ring()
        if isinstance(message, ToTask) and isinstance(message.event, Cancel):
            self._interrupt.soon()

    def _handle(self, message: FromJobMaster) -> None:
        slot = self._slot
        assert isinstance(message, ToTask)
        if message.attempt != self._level.attempt or slot is None:
            return
        if isinstance(message.event, (Close, Cancel)):
            self._end(slot, message.event)
        else:
            slot.handle(message.vertex, message.event)

    def _end(self, slot: Slot, event: Close | Cancel) -> None:
        self._discarding = True
        try:
            slot.handle_all(event)
        finally:
            # The last counters go first: after the last report of the last slot the job is over.
            self._report(self._heartbeat())
            self._send_effects()

    def _send_effects(self) -> None:
        assert self._slot is not None
        for effect in self._slot.take_effects():
            if isinstance(effect, WriteSnapshot):
                self._snapshots.write(effect.vertex, effect.snapshot)
            else:
                assert isinstance(effect, ControlEffect)
                self._report(effect)

    def _report(self, report: SlotReport) -> None:
        self._client.send(self._from_slot(report))

    def _from_slot(self, report: SlotReport) -> FromSlot:
        return FromSlot(self._level.attempt, self._level.level, self._index, report)

    def _take_input(self, busy: bool) -> None:
        """One batch, if there is one; while there is work to do, none is asked for."""
        before = time.monotonic_ns()
        if busy or self._client.received:
            self._garbage.waited(before, 0)
            return
        self._waiting = ("idle_ns", before)
        batch = self._inbox.get(self._timeout_ns(before))
        self._account()
        after = time.monotonic_ns()
        self._garbage.waited(after, after - before)
        if batch is None or self._discarding:
            return
        self._guarded(lambda: self._receive(batch))

    def _receive(self, batch: pa.RecordBatch) -> bool:
        assert self._slot is not None
        for buffer in buffers_of(batch):
            self._slot.receive(buffer)
        return True

    def _timeout_ns(self, now_ns: int) -> int | None:
        if self._discarding or self._slot is None:
            return None
        times = []
        wake_at_ms = self._slot.wake_at_ms()
        if wake_at_ms is not None:
            times.append(wake_at_ms * 1_000_000 - time.time_ns())
        push_ns = self._pushes.next_ns()
        if push_ns is not None:
            times.append(push_ns - now_ns)
        return max(min(times), 0) if times else None

    def _guarded(self, do: Callable[[], bool]) -> bool:
        """Run a part of the slot's work; if it fails, tell the JobManager and close what is open."""
        try:
            return do()
        except Interrupted:
            return True
        except Exception as error:
            kind, text = describe(error)
            self._discarding = True
            self._report(SlotFailed(kind, text))
            if self._slot is not None:
                # The first failure is the one to tell.
                with contextlib.suppress(Exception):
                    self._slot.handle_all(Cancel())
            return False

    def _next_heartbeat(self) -> FromSlot:
        return self._from_slot(self._heartbeat())

    def _heartbeat(self) -> Heartbeat:
        reports = reports_of(self._slot) if self._slot is not None else []
        waiting = self._waiting
        if waiting is not None:
            # A slot may be back-pressured for minutes: the time is reported while it lasts.
            what, since_ns = waiting
            ns = time.monotonic_ns() - since_ns
            reports = [msgspec.structs.replace(report, **{what: getattr(report, what) + ns}) for report in reports]
        return Heartbeat(reports)

    def _account(self) -> None:
        """The wait is over: count it, as idle or back-pressured time of each task of the slot."""
        assert self._waiting is not None
        (what, since_ns), self._waiting = self._waiting, None
        ns = time.monotonic_ns() - since_ns
        for task in self._slot.tasks.values() if self._slot is not None else ():
            setattr(task.counters, what, getattr(task.counters, what) + ns)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
