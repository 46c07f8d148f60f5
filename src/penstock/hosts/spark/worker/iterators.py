"""The plain transport: PySpark reads the input on a thread of its own and writes what the stage yields.

An iterator can't be asked with a timeout, and a host also has to react to timers, pushes and control messages. So a
thread takes batches from PySpark's iterator and puts them into a queue, from which the slot's thread reads. The queue
is bounded, or back pressure would end here. Each batch passes two threads and two queues (PySpark's and this one): that
is what makes it slower than `pipes.py`.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.common.functions.user_calls import RAISED
from penstock.hosts.spark.rows import to_batch

QUEUED_BATCHES = 2
"""As many as PySpark's own queue holds."""

_BELL = object()
_END = object()


class IteratorTransport:
    """A `Transport` over PySpark's iterators. PySpark has to flush its output after each batch that is yielded."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        # Not a bounded queue but a semaphore beside it: the bell must get in when there is no room for a batch.
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room = threading.Semaphore(QUEUED_BATCHES)
        self._rung = False
        self._bell = threading.Event()
        self._ended = False
        thread = threading.Thread(target=self._take_all, args=(batches,), name="penstock-reader", daemon=True)
        thread.start()

    @property
    def ended(self) -> bool:
        return self._ended

    def read(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        if self._ended:
            return None
        try:
            if timeout_ns is not None and timeout_ns <= 0:
                arrived = self._arrived.get_nowait()
            else:
                arrived = self._arrived.get(timeout=None if timeout_ns is None else timeout_ns / 1e9)
        except queue.Empty:
            return None
        if arrived is _BELL:
            # Reset before the host looks at what it was woken for: a later ring is a new one.
            self._rung = False
        elif arrived is _END:
            self._ended = True
        else:
            self._room.release()
            return arrived
        return None

    def wait(self, timeout_ns: int | None) -> None:
        # A bell of its own: in the queue there may be batches before the other one. What is lost is noticed by the next
        # `read`, or by the thread that watches for the end of the query.
        self._bell.wait(None if timeout_ns is None else max(0.0, timeout_ns / 1e9))
        self._bell.clear()

    def write(self, rows: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        yield to_batch(rows)

    def ring(self) -> None:
        self._bell.set()
        # Two threads at once may both put a bell: one `read` too many returns, which does no harm.
        if not self._rung:
            self._rung = True
            self._arrived.put(_BELL)

    def _take_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        # PySpark's reader fails when Spark closes the pipe, possibly in the middle of a row. If input is lost for
        # another reason, Spark fails the query and says why.
        with contextlib.suppress(*RAISED):
            for batch in batches:
                self._room.acquire()
                self._arrived.put(batch)
        self._arrived.put(_END)
