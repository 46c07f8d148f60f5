"""The host of a slot in batched mode: its input is sorted by Spark and ends, and its tasks may run more than once.

Spark reruns a task that is lost, when others have read a part of its output already. So a run must send what the one
before has sent: splits are fixed, partitioners are seeded, input is sorted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import msgspec
import pyarrow as pa

from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.common.time.wall_clock import now_ms
from penstock.engine.runtime.batch.slot_run import run_to_end
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import Event, Result
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.hosts.spark.failures import to_stage_failure
from penstock.hosts.spark.payload import Payload, unpack
from penstock.hosts.spark.rows import buffers_of, to_batch
from penstock.hosts.spark.worker.children import end_children
from penstock.hosts.spark.worker.crash_reports import remove_note, write_note
from penstock.hosts.spark.worker.event_loop import EventLoops, ReaderNotices
from penstock.hosts.spark.worker.garbage import GarbageCollection
from penstock.hosts.spark.worker.hangup import watch_for_hangup
from penstock.hosts.spark.worker.interrupt import Interrupt
from penstock.hosts.spark.worker.randomness import reseed
from penstock.hosts.spark.worker.reports import reports_of
from penstock.hosts.spark.worker.result_sender import ConnectedResultSender, ResultSender
from penstock.hosts.spark.worker.spill_file import TemporarySpill
from penstock.hosts.spark.worker.task_log import TaskLog


def batched_stage(payload: Payload) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of a stage, for `mapInArrow`: it hosts the slot of its partition from open to close."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        run, index = context.taskAttemptId(), context.partitionId()
        log = TaskLog(payload.logs, payload.number, [index])
        log.open()
        try:
            reseed()
            level = unpack(payload)
            assert payload.control is not None
            results = ConnectedResultSender(
                payload.control, payload.heartbeat_ms, run, level.level, index,
                is_reported=payload.reports or log.is_far, take_log=lambda: log.take_far(index),
            )  # fmt: skip
            garbage = GarbageCollection(time.monotonic_ns())
            yield from run_slot(
                level, index, run, batches, results, lambda: garbage.waited(time.monotonic_ns(), idle_ns=0)
            )
        except GeneratorExit:
            # PySpark reads no more.
            raise
        except RAISED as error:
            # Without the chain of exceptions: Spark would add a long text of it, and the failure is complete without.
            raise to_stage_failure(error) from None
        finally:
            remove_note()
            log.close()

    return stage


def run_slot(
    level: LevelSpec,
    index: int,
    run: int,
    batches: Iterator[pa.RecordBatch],
    results: ResultSender,
    stepped: Callable[[], None],
    watch: Callable[[Callable[[], None]], None] = watch_for_hangup,
) -> Iterator[pa.RecordBatch]:
    """Run the slot `index` of a level over its sorted input; gives the rows for the next level, its outcome last.

    `run` is the number of this run of the task, also for names of files; the outcome is `run` and the reports of its
    counters. What the slot sends to the driver goes to `results`, which is closed. `stepped` is called after each step,
    `watch` is given a function to call when Spark has ended the task. Must be called in the main thread. Raises what
    user functions raise, as UserFunctionError; the tasks are closed then.
    """
    write_note(level, [index])
    name, calls = f"{run}-{os.getpid()}", _Calls()
    environment = Environment(
        now_ms,
        time.monotonic_ns,
        run=name,
        open_spill=TemporarySpill,
        open_event_loop=calls.loops.open,
        notify=calls.notices.notify,
    )
    slot = Slot(level, index, environment)
    results.begin(lambda: reports_of(slot, time.monotonic_ns()))
    interrupt = Interrupt()
    abandoned = threading.Event()

    def hung_up() -> None:
        abandoned.set()
        interrupt.soon()
        calls.ring()

    watch(hung_up)
    try:
        # Level 0 has no input: the rows that Spark gives it only start its tasks.
        yield from run_to_end(
            slot,
            (buffer for batch in batches for buffer in buffers_of(batch)) if level.level else (),
            lambda: _until_idle(slot, calls, interrupt, results, stepped),
            lambda: calls.wait(slot.wake_at_ms()),
        )
        _send_results(slot, results)
        results.finish(next(iter(slot.tasks.values())).id, abandoned)
        slot.send_outcome((run, msgspec.msgpack.encode(reports_of(slot, time.monotonic_ns()))))
        yield to_batch(slot.outbox.take())
    except BaseException:
        if abandoned.is_set():
            _leave()
        raise
    finally:
        results.close()


def _leave() -> NoReturn:
    """End this process. Spark has closed the pipes: PySpark would fail to report a failure, with a traceback."""
    with contextlib.suppress(*RAISED):
        end_children()
    os._exit(0)


class _Calls:
    """What goes on beside the slot, asynchronous calls and readers' threads, and a wait that any of it ends."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self.ring = self._rung.set
        self.loops = EventLoops(self.ring)
        self.notices = ReaderNotices(self.ring)

    def take(self) -> Iterator[tuple[int, Event]]:
        """What has come of it since the last call, by vertex."""
        yield from self.loops.take()
        yield from self.notices.take()

    def wait(self, until_ms: int | None) -> None:
        """Wait until then (None: without limit), or until something has come."""
        self._rung.wait(None if until_ms is None else max(0.0, until_ms / 1000 - time.time()))
        self._rung.clear()


def _until_idle(
    slot: Slot, calls: _Calls, interrupt: Interrupt, results: ResultSender, stepped: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    busy = True
    while busy:
        with interrupt.allowed():
            if slot.waiting:
                calls.wait(slot.wake_at_ms())
            for vertex, event in calls.take():
                slot.handle(vertex, event)
            busy = _step(slot) or slot.waiting
        _send_results(slot, results)
        stepped()
        rows = slot.outbox.take()
        if rows:
            yield to_batch(rows)


def _step(slot: Slot) -> bool:
    try:
        return slot.step()
    except GeneratorExit as error:
        # A function's. Raised out of this generator, it would say that PySpark reads no more.
        raise as_exception(error) from None


def _send_results(slot: Slot, results: ResultSender) -> None:
    for effect in slot.take_effects():
        if isinstance(effect, Result):
            results.send(effect)
