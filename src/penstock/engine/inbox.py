"""The one input of a slot: rows from Spark, read ahead by a thread, and a bell that control messages ring."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pyarrow as pa

# Few, or back pressure would end here: what is read ahead is no longer held back by Spark's shuffle.
_BATCHES_AHEAD = 8


class Inbox:
    """Batches in the order in which they came. `get` returns None when only the bell rang, or nothing came in time."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._arrived: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(_BATCHES_AHEAD)
        self._batches = batches
        self.ended = threading.Event()
        threading.Thread(target=self._read, name="penstock-reader", daemon=True).start()

    def get(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        """The next batch; waits for it at most `timeout_ns`, for ever if None, not at all if 0."""
        try:
            if timeout_ns is None:
                batch = self._arrived.get()
            elif timeout_ns <= 0:
                batch = self._arrived.get_nowait()
            else:
                batch = self._arrived.get(timeout=timeout_ns / 1e9)
        except queue.Empty:
            return None
        if batch is not None:
            self._room.release()
        return batch

    def ring(self) -> None:
        """Wake up whoever waits in `get`."""
        self._arrived.put(None)

    def _read(self) -> None:
        try:
            for batch in self._batches:
                self._room.acquire()
                self._arrived.put(batch)
        except Exception:
            # When Spark ends a query it closes the pipe in the middle of a row. Input that is lost is told by Spark.
            pass
        finally:
            self.ended.set()
            self.ring()
