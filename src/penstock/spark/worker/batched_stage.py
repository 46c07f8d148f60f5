"""The host of a slot in batched mode: input sorted by Spark, tasks that may run twice, an end.

A task that runs again must send what it sent before: its splits are fixed, its partitioners seeded, its input sorted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa

from penstock.runtime.operators.source import SourceOperator
from penstock.runtime.task.environment import Environment
from penstock.runtime.task.events import AssignSplits, Cancel, Close, InputEnded, NoMoreSplits, Result
from penstock.runtime.task.opaque import Opaque
from penstock.runtime.task.slot import Slot
from penstock.spark.failures import to_stage_failure
from penstock.spark.payload import Payload, unpack
from penstock.spark.rows import buffers_of, to_batch
from penstock.spark.worker.hangup import watch_for_hangup
from penstock.spark.worker.interrupt import Interrupt
from penstock.spark.worker.reports import reports_of

COUNTERS_SINK = -1
"""The sink under which the counters of a slot travel, as a last result."""


def batched_stage(payload: Payload) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of a stage."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        run = f"{context.taskAttemptId()}-{os.getpid()}"
        try:
            yield from _run(payload, context.partitionId(), run, batches)
        except Exception as error:
            # Without the chain: Spark's text of it is long, and the failure says all that is to be said.
            raise to_stage_failure(error) from None

    return stage


def _run(payload: Payload, index: int, run: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    level = unpack(payload)
    slot = Slot(level, index, Environment(_now_ms, time.monotonic_ns, run=run))
    interrupt = Interrupt()
    given_up = threading.Event()

    def hung_up() -> None:
        given_up.set()
        interrupt.soon()

    watch_for_hangup(hung_up)
    try:
        slot.open()
        for vertex, task in slot.tasks.items():
            if isinstance(task.chain.head, SourceOperator):
                slot.handle(vertex, AssignSplits(Opaque(level.splits[vertex][index])))
                slot.handle(vertex, NoMoreSplits())
        for batch in batches if level.level else ():
            for buffer in buffers_of(batch):
                slot.receive(buffer)
                yield from _until_idle(slot, interrupt)
        for task in slot.tasks.values():
            if not isinstance(task.chain.head, SourceOperator):
                task.handle(InputEnded())
        while not slot.data_ended:
            yield from _until_idle(slot, interrupt)
            _sleep_until(slot)
        slot.handle_all(Close())
        yield from _counters(slot)
    except BaseException:
        with contextlib.suppress(Exception):
            slot.handle_all(Cancel())
        if given_up.is_set():
            # Nobody listens any more: what this process still wrote would only meet a closed pipe and a traceback.
            os._exit(0)
        raise


def _until_idle(slot: Slot, interrupt: Interrupt) -> Iterator[pa.RecordBatch]:
    busy = True
    while busy:
        with interrupt.allowed():
            busy = slot.step()
        slot.take_effects()
        rows = slot.outbox.take()
        if rows:
            yield to_batch(rows)


def _sleep_until(slot: Slot) -> None:
    """A source may have nothing for now (a rate limit)."""
    at = None if slot.data_ended else slot.wake_at_ms()
    if at is not None:
        time.sleep(max(0.0, at / 1000 - time.time()))


def _counters(slot: Slot) -> Iterator[pa.RecordBatch]:
    task = next(iter(slot.tasks.values()))
    task.effects.append(
        Result(task.vertex.id, task.info.subtask, COUNTERS_SINK, Opaque([msgspec.msgpack.encode(reports_of(slot))]))
    )
    slot.take_effects()
    yield to_batch(slot.outbox.take())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
