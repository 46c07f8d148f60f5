"""The host of a slot in batched mode: Spark sorts its finite input, and may run its tasks more than once.

Spark runs a lost task again even if other tasks have read a part of its output. So each attempt must send the same
output: splits are fixed, partitioners are seeded, input is sorted.
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
from penstock.engine.state.memory_budget import MemoryBudget
from penstock.hosts.spark.failures import to_stage_failure
from penstock.hosts.spark.payload import Payload, unpack
from penstock.hosts.spark.rows import buffers_of, to_batch
from penstock.hosts.spark.worker.available_memory import available_memory
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
    """Return the function of a stage for `mapInArrow`. It hosts the slot of its partition from open to close."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        attempt, index = context.taskAttemptId(), context.partitionId()
        log = TaskLog(payload.logs, payload.number, [index])
        log.open()
        try:
            reseed()
            level = unpack(payload)
            assert payload.control is not None
            results = ConnectedResultSender(
                payload.control,
                payload.heartbeat_ms,
                attempt=attempt,
                level=level.level,
                index=index,
                is_reported=payload.reports or log.is_remote,
                take_log=lambda: log.drain_remote_lines(index),
            )
            garbage = GarbageCollection(time.monotonic_ns())
            yield from run_slot(
                level,
                index,
                attempt=attempt,
                batches=batches,
                results=results,
                stepped=lambda: garbage.waited(time.monotonic_ns(), idle_ns=0),
            )
        except GeneratorExit:
            # PySpark has stopped reading.
            raise
        except RAISED as error:
            # Drop the chain of exceptions, which Spark would add as a long text: the failure has all information.
            raise to_stage_failure(error) from None
        finally:
            remove_note()
            log.close()

    return stage


def run_slot(
    level: LevelSpec,
    index: int,
    *,
    attempt: int,
    batches: Iterator[pa.RecordBatch],
    results: ResultSender,
    stepped: Callable[[], None],
    watch: Callable[[Callable[[], None]], None] = watch_for_hangup,
) -> Iterator[pa.RecordBatch]:
    """Run the slot `index` of a level over its sorted input. Yields the rows for the next level, the outcome last.

    `attempt`: the number of the task attempt, which is also part of the names of files. The outcome is this number, and
    the reports of the counters. `results` gets the slot's results, and is closed. `stepped` is called after each step;
    `watch` gets a function to call when Spark has ended the task. Call this in the main thread. Raises
    UserFunctionError if a user's function raises; the tasks are closed then.
    """
    write_note(level, [index])
    name, calls = f"{attempt}-{os.getpid()}", _Calls()
    environment = Environment(
        now_ms,
        time.monotonic_ns,
        run=name,
        open_spill=TemporarySpill,
        open_event_loop=calls.loops.open,
        notify=calls.notices.notify,
        memory=MemoryBudget(level.slot_memory_bytes, available_memory),
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
        # Level 0 has no input: Spark's rows for it only start its tasks.
        yield from run_to_end(
            slot,
            (buffer for batch in batches for buffer in buffers_of(batch)) if level.level else (),
            lambda: _until_idle(slot, calls, interrupt=interrupt, results=results, stepped=stepped),
            lambda: calls.wait(slot.wake_at_ms()),
        )
        _send_results(slot, results)
        results.finish(next(iter(slot.tasks.values())).id, abandoned)
        slot.send_outcome((attempt, msgspec.msgpack.encode(reports_of(slot, time.monotonic_ns()))))
        yield to_batch(slot.outbox.take())
    except BaseException:
        if abandoned.is_set():
            _exit()
        raise
    finally:
        results.close()


def _exit() -> NoReturn:
    """End this process. Spark has closed the pipes, so PySpark would print a traceback when it reports the failure."""
    with contextlib.suppress(*RAISED):
        end_children()
    os._exit(0)


class _Calls:
    """Collect events of a slot's asynchronous calls and readers' threads, and wait for them."""

    def __init__(self) -> None:
        self._rung = threading.Event()
        self.ring = self._rung.set
        self.loops = EventLoops(self.ring)
        self.notices = ReaderNotices(self.ring)

    def take(self) -> Iterator[tuple[int, Event]]:
        """Remove and yield the events since the last call, by vertex."""
        yield from self.loops.take()
        yield from self.notices.take()

    def wait(self, until_ms: int | None) -> None:
        """Wait until that time, or without a limit if None, or until an event has arrived."""
        self._rung.wait(None if until_ms is None else max(0.0, until_ms / 1000 - time.time()))
        self._rung.clear()


def _until_idle(
    slot: Slot, calls: _Calls, *, interrupt: Interrupt, results: ResultSender, stepped: Callable[[], None]
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
        # A user's function has raised it. From this generator, it would mean that PySpark has stopped reading.
        raise as_exception(error) from None


def _send_results(slot: Slot, results: ResultSender) -> None:
    for effect in slot.take_effects():
        if isinstance(effect, Result):
            results.send(effect)
