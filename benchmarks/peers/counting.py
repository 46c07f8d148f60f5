"""Counters of the last operator of each job, the same for all peers (FlinkJobs.java has a Java version).

Each subtask appends lines of JSON to its own file in one directory; `measuring.py` reads them. All times are
microseconds since 1970, `n` is the number of records so far. A process that is killed loses at most a quarter of a
second.

    {"at": ..., "n": ...}                          throughput
    {"at": ..., "n": ..., "latencies": [[tenths of a millisecond, records], ...]}     since the previous line
    {"at": ..., "window": end in ms, "n": records in this window, as far as they were emitted together}

Imports the standard library only: it runs in every peer's environment.
"""

import functools
import json
import time
import uuid
from pathlib import Path

KEYS = 1000
PARALLELISM = 2
WINDOW_MS = 1000
INTERVAL_US = 250_000
STRIDE = 256


def now_us():
    return time.time_ns() // 1000


class Counter:
    """`weight`: number of source records that one record here represents."""

    def __init__(self, directory, weight=1):
        self._file = (Path(directory) / f"{uuid.uuid4()}.jsonl").open("w", buffering=1)
        self._weight = weight
        self._seen = 0
        self._latencies = {}
        self._written_at = 0
        self._window = None
        self._in_window = 0

    def seen(self, count):
        """Record that `count` records arrived so far.

        Call it about every STRIDE records: counting in the caller is cheapest.
        """
        now = now_us()
        if now - self._written_at >= INTERVAL_US:
            self._write({"at": now, "n": count * self._weight})
            self._written_at = now

    def more(self, count):
        """Add to the number of records, for callers that can't keep it."""
        before, self._seen = self._seen, self._seen + count
        if before // STRIDE != self._seen // STRIDE:
            self.seen(self._seen)

    def arrived(self, created_us):
        """Record the latency of a record."""
        now = now_us()
        self._seen += 1
        tenths = (now - created_us) // 100
        self._latencies[tenths] = self._latencies.get(tenths, 0) + 1
        if now - self._written_at >= INTERVAL_US:
            self._write({"at": now, "n": self._seen, "latencies": sorted(self._latencies.items())})
            self._latencies = {}
            self._written_at = now

    def window(self, end_ms, count):
        """Record one key's result of the window that ends at `end_ms`."""
        if end_ms != self._window and self._in_window:
            self._write({"at": self._written_at, "window": self._window, "n": self._in_window})
            self._in_window = 0
        self._window = end_ms
        self._in_window += count
        self._written_at = now_us()

    def _write(self, line):
        self._file.write(json.dumps(line) + "\n")


@functools.cache
def counter_of_process(directory):
    """Return the counter of this process, for engines that create functions per batch."""
    return Counter(directory)
