"""Garbage collection in a worker: CPU per record, against the collection of young objects alone.

Without Spark: chunks of pairs are unpickled, and each record replaces the object of its key, by turns under both. The
time that collections depend on is that of `--rate` records a second, so the figures don't depend on the machine.

    python -m benchmarks.curves.collections --live 1000000
    python -m benchmarks.curves.collections --cyclic
"""

from __future__ import annotations

import argparse
import gc
import pickle
import statistics
import time
from typing import Any

from benchmarks.curves.cycles import Node
from benchmarks.measurement import tell
from penstock.hosts.spark.worker.garbage import GarbageCollection

_CHUNK = 500
_SECOND_NS = 1_000_000_000


class YoungOnly:
    """Collects the young generation each second, and nothing else."""

    def __init__(self) -> None:
        self._at = _SECOND_NS

    def waited(self, now_ns: int, idle_ns: int) -> None:
        """Collect if it is due."""
        if now_ns >= self._at:
            gc.collect(0)
            self._at = now_ns + _SECOND_NS


class Run:
    """State of `live` objects that stay, and of `keys` that are replaced."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._live = [Node(number) for number in range(arguments.live)]
        self._state: dict[int, Any] = {}
        self._keys, self._cyclic, self._rate = arguments.keys, arguments.cyclic, arguments.rate
        chunks = [
            [((at + i) * 2654435761 % self._keys, i) for i in range(_CHUNK)] for at in range(0, self._keys, _CHUNK)
        ]
        self._chunks = [pickle.dumps(chunk) for chunk in chunks]
        self.pauses: list[float] = []

    def records(self, count: int, garbage: Any) -> float:
        """Process so many records; returns the CPU time of each (ns)."""
        state, chunk_ns = self._state, _CHUNK * _SECOND_NS // self._rate
        began, now_ns = time.process_time(), 0
        for number in range(count // _CHUNK):
            for key, value in pickle.loads(self._chunks[number % len(self._chunks)]):
                node = Node(value)
                if not self._cyclic:
                    node.child = None
                state[key] = node
            now_ns += chunk_ns
            before = time.process_time()
            garbage.waited(now_ns, 0)
            self.pauses.append(time.process_time() - before)
        return (time.process_time() - began) / count * 1e9


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--live", type=int, default=0, help="further objects on the heap, each in a cycle")
    parser.add_argument("--cyclic", action="store_true", help="what is replaced is in a cycle")
    parser.add_argument("--seconds", type=int, default=60, help="of the rate, in each turn")
    parser.add_argument("--pairs", type=int, default=7)
    arguments = parser.parse_args()
    run = Run(arguments)
    gc.collect()
    ratios, costs, longest = [], [], 0.0
    for _ in range(arguments.pairs):
        before = run.records(arguments.rate * arguments.seconds, YoungOnly())
        gc.collect()
        run.pauses.clear()
        cost = run.records(arguments.rate * arguments.seconds, GarbageCollection(0))
        longest = max(longest, *run.pauses)
        gc.collect()
        costs.append(cost)
        ratios.append(cost / before)
    tell(
        {
            "ns_per_record": statistics.median(costs),
            "of_young_only": statistics.median(ratios),
            "least": min(ratios),
            "most": max(ratios),
            "longest_pause_ms": longest * 1e3,
        }
    )


if __name__ == "__main__":
    main()
