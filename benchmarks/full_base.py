"""A full snapshot of large state during work: by a thread in steps of a millisecond, or by a forked child. Item 20.

Without Spark: a table on the heap, a loop that accesses it like a keyed count, and one of the two ways of writing it to
a local file at the same time. `share` is the speed of the loop during the snapshot, relative to before; `longest_ms`
the longest time of one turn of the loop (some hundred records); `stop_ms` the pause of the loop at the start;
`extra_mb` the additional memory.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from benchmarks.measurement import tell
from penstock.engine.checkpoint.storage import DirectoryStorage
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.snapshot.files import write_keyed
from penstock.engine.state.tables import FrozenTable

# As in Spark's workers (hosts/spark/worker/pipelined_stage.py).
_SWITCH_SECONDS = 0.0005
_TURN_RECORDS = 500
_BEFORE_S = 5.0
_CHANGES_ONE_KEY_OF = 100
_MAX_PARALLELISM = 128
_FOLDED = 2_000


class Loop:
    """Reads the value of a key and replaces it, without a rate limit."""

    def __init__(self, table: LayeredTable, keys: int, value_bytes: int) -> None:
        self.table = table
        self.records = 0
        self.longest_s = 0.0
        self._keys = keys
        self._value_bytes = value_bytes
        self._next = 0

    def turn(self) -> None:
        """Process some hundred records of a subset of the keys, in turn, so that state changes without growing."""
        began = time.perf_counter()
        table, keys, size = self.table, max(1, self._keys // _CHANGES_ONE_KEY_OF), self._value_bytes
        for number in range(self._next, self._next + _TURN_RECORDS):
            key = number % keys
            before = table.get(key)
            table.put(key, (int.from_bytes(before[:8], "little") + 1).to_bytes(8, "little").ljust(size, b"-"))
        self._next += _TURN_RECORDS
        self.records += _TURN_RECORDS
        self.longest_s = max(self.longest_s, time.perf_counter() - began)
        table.compact(_FOLDED)

    def run(self, until: Callable[[], bool]) -> float:
        """Run turns until the condition holds; return records per second."""
        self.records, self.longest_s, began = 0, 0.0, time.perf_counter()
        while not until():
            self.turn()
        return self.records / (time.perf_counter() - began)


def write(frozen: FrozenTable, directory: str, pauses: bool) -> None:
    """Write all of it, like a snapshot. `pauses`: release the interpreter after each step."""
    for _ in write_keyed(DirectoryStorage(directory), "1-full", {"state": frozen}, KeyGroups(_MAX_PARALLELISM)):
        if pauses:
            time.sleep(0)


class InThread:
    """A thread of this process."""

    def __init__(self, frozen: FrozenTable, directory: str) -> None:
        self._thread = threading.Thread(target=write, args=(frozen, directory, True))
        self._thread.start()

    def has_ended(self) -> bool:
        """Return whether all is written."""
        return not self._thread.is_alive()

    def memory(self) -> int:
        """Return the bytes in addition to those of this process."""
        return 0


class InChild:
    """A forked child, which has a copy-on-write view of this process's memory."""

    def __init__(self, frozen: FrozenTable, directory: str) -> None:
        self._pid = os.fork()
        if self._pid == 0:
            with contextlib.suppress(BaseException):
                os.closerange(3, 1024)
                # The garbage collector would touch, and so copy, every object.
                gc.freeze()
                gc.disable()
                write(frozen, directory, pauses=False)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        self._process = psutil.Process(self._pid)
        self._ended = False

    def has_ended(self) -> bool:
        """Return whether all is written. Raises RuntimeError if the child failed."""
        if not self._ended:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._ended = pid != 0
            if status:
                raise RuntimeError(f"the child exited with {status}")
        return self._ended

    def memory(self) -> int:
        """Return the bytes owned by the child alone."""
        with contextlib.suppress(psutil.Error):
            return int(self._process.memory_full_info().uss)
        return 0


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--state-mb", type=int, default=1_000)
    parser.add_argument("--value-bytes", type=int, default=1_000)
    parser.add_argument("--by", choices=["thread", "child"], default="thread")
    arguments = parser.parse_args()
    gc.disable()
    sys.setswitchinterval(_SWITCH_SECONDS)
    keys = arguments.state_mb * 1_000_000 // arguments.value_bytes
    table = LayeredTable()
    for key in range(keys):
        table.put(key, (1).to_bytes(8, "little").ljust(arguments.value_bytes, b"-"))
    table.freeze(True).release()
    loop = Loop(table, keys, arguments.value_bytes)
    end_s = time.perf_counter() + _BEFORE_S
    before = loop.run(lambda: time.perf_counter() > end_s)
    longest_before_s = loop.longest_s
    resident = psutil.Process().memory_info().rss
    most = 0
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        began = time.perf_counter()
        frozen = table.freeze(True)
        writer = (InThread if arguments.by == "thread" else InChild)(frozen, directory)
        stopped_s = time.perf_counter() - began
        looked_s = began

        def written() -> bool:
            nonlocal most, looked_s
            if time.perf_counter() - looked_s > 1:
                looked_s = time.perf_counter()
                most = max(most, writer.memory() + psutil.Process().memory_info().rss - resident)
            return writer.has_ended()

        during = loop.run(written)
        took_s = time.perf_counter() - began
        size = sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())
    tell(
        {
            "seconds": took_s,
            "mb_per_s": size / 1e6 / took_s,
            "share": during / before,
            "stop_ms": stopped_s * 1e3,
            "longest_ms": loop.longest_s * 1e3,
            "longest_before_ms": longest_before_s * 1e3,
            "extra_mb": most / 1e6,
            "state_mb": size / 1e6,
            "records_per_s": during,
        }
    )


if __name__ == "__main__":
    main()
