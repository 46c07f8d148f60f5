"""The host of a worker in pipelined mode: a generator inside `mapInArrow` that runs as long as the job.

It must not return before Spark ends the query: Spark's task would wait for the end of its input, which never comes. So
a worker whose slots are closed, or have failed, goes on reading and discards its input. A worker hosts one slot, or
several that share its thread, its input and its output (engine/runtime/task/worker_slots.py).
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from penstock.common.configuration.choices import SparkTransport
from penstock.common.functions.user_calls import RAISED
from penstock.common.time.earliest import earliest
from penstock.engine.runtime.network.buffer import PUSH
from penstock.engine.runtime.task.worker_slots import WorkerRoutes
from penstock.hosts.spark.internals.worker_streams import WorkerStreams
from penstock.hosts.spark.payload import Payload, unpack, unpack_again
from penstock.hosts.spark.rows import buffers_of
from penstock.hosts.spark.worker.children import end_children
from penstock.hosts.spark.worker.crash_reports import end_of_former, remove_note, write_note
from penstock.hosts.spark.worker.garbage import GarbageCollection
from penstock.hosts.spark.worker.hangup import watch_for_hangup
from penstock.hosts.spark.worker.interrupt import Interrupt
from penstock.hosts.spark.worker.iterators import IteratorTransport
from penstock.hosts.spark.worker.pipes import PipeTransport
from penstock.hosts.spark.worker.pushes import PUSH_NS, Pushes
from penstock.hosts.spark.worker.randomness import reseed
from penstock.hosts.spark.worker.side_channel import WorkerChannel
from penstock.hosts.spark.worker.slot_host import SlotHost
from penstock.hosts.spark.worker.task_log import TaskLog
from penstock.hosts.spark.worker.transport import Transport

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
