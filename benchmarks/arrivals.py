"""The sink of all measurements: records, second by second, how many records arrived and how old they were.

Each subtask writes a line of JSON per second to its own file, and the arrival time of its first record. The age is the
time from the stamp set by the source (`time.time_ns()`) to the arrival in the last operator, by the clock of the same
machine.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

from penstock.api.sink import Sink, SinkContext, SinkWriter

_NS = 1_000_000_000
_AGE_STEP_NS = 10_000


class ArrivalsSink(Sink[Any]):
    """Counts records. `stamp`: position of the stamp in a record, None to ignore ages.

    `weight`: position of the number of records that a record represents. `records_per_s`: limit for all subtasks
    together. `on_columns`: whether it takes batches, without stamps and weights.
    """

    def __init__(
        self,
        directory: str,
        stamp: int | None = None,
        weight: int | None = None,
        records_per_s: float = 0,
        *,
        on_columns: bool = False,
    ) -> None:
        self.directory = directory
        self.stamp = stamp
        self.weight = weight
        self.records_per_s = records_per_s
        self.on_columns = on_columns

    def takes_columns(self, columns: Any) -> bool:
        return self.on_columns

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _ArrivalsWriter(self, context)


class _ArrivalsWriter(SinkWriter[Any]):
    def __init__(self, sink: ArrivalsSink, context: SinkContext) -> None:
        self._stamp = sink.stamp
        self._weight = sink.weight
        self._ns_per_record = _NS * context.parallelism / sink.records_per_s if sink.records_per_s else 0
        # Each run of a subtask has its own files: those from before a restart are retained.
        self._begun = Path(sink.directory, f"begun-{context.subtask}-{context.attempt}")
        path = Path(sink.directory, f"arrivals-{context.subtask}-{context.attempt}.jsonl")
        self._file = path.open("w", encoding="utf-8")
        self._second = 0
        self._count = 0
        self._ages: Counter[int] = Counter()

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        now_ns = self._begin_second()
        weight, stamp = self._weight, self._stamp
        self._count += len(values) if weight is None else sum([value[weight] for value in values])
        if stamp is not None:
            self._ages.update([(now_ns - value[stamp]) // _AGE_STEP_NS for value in values])
        if self._ns_per_record:
            time.sleep(len(values) * self._ns_per_record / _NS)

    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        self._begin_second()
        self._count += batch.num_rows

    def _begin_second(self) -> int:
        """Write the line of the second before, if it is over. Return the time (ns)."""
        now_ns = time.time_ns()
        second = now_ns // _NS
        if second != self._second:
            if not self._second:
                self._begun.write_text(str(now_ns), encoding="utf-8")
            self._write_line()
            self._second = second
        return now_ns

    def close(self) -> None:
        self._write_line()
        self._file.close()

    def _write_line(self) -> None:
        if self._count:
            line = {"second": self._second, "count": self._count, "ages": list(self._ages.items())}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        self._count = 0
        self._ages.clear()


class Arrivals:
    """Arrivals from second `begin` to before second `end` (seconds since 1970)."""

    def __init__(self, directory: Path, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end
        self.counts: Counter[int] = Counter()
        self._ages: dict[int, Counter[int]] = {}
        for path in directory.glob("arrivals-*.jsonl"):
            for text in path.read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                if begin <= line["second"] < end:
                    self.counts[line["second"]] += line["count"]
                    self._ages.setdefault(line["second"], Counter()).update(dict(line["ages"]))

    @property
    def records_per_s(self) -> float:
        """Return the mean over all seconds, including those without records."""
        return self.counts.total() / (self.end - self.begin)

    def age_ms(self, *quantiles: float, begin: int | None = None, end: int | None = None) -> list[float]:
        """Return these quantiles (1: the maximum) of the ages in the given seconds. NaN if no record arrived."""
        ages: Counter[int] = Counter()
        for second, of_second in self._ages.items():
            if (begin or self.begin) <= second < (end or self.end):
                ages.update(of_second)
        total, ordered = ages.total(), sorted(ages.items())
        return [_at(ordered, quantile * total) for quantile in quantiles]

    def mean_age_ms(self, begin: int, end: int) -> float:
        """Return the mean age of records in the given seconds. NaN if no record arrived."""
        chosen = [ages for second, ages in self._ages.items() if begin <= second < end]
        count = sum(ages.total() for ages in chosen)
        summed = sum(step * n for ages in chosen for step, n in ages.items())
        return summed / count * _AGE_STEP_NS / 1e6 if count else math.nan


def count_so_far(directory: Path) -> int:
    """Return the number of records in the lines written so far."""
    paths = directory.glob("arrivals-*.jsonl")
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines(keepends=True)]
    return sum(json.loads(line)["count"] for line in lines if line.endswith("\n"))


def began_ns(directory: Path, after_ns: int) -> dict[int, int]:
    """Return by subtask the time of the first record of its runs that started after `after_ns`."""
    began: dict[int, int] = {}
    for path in directory.glob("begun-*"):
        first_ns = int(path.read_text(encoding="utf-8") or 0)
        subtask = int(path.name.split("-")[1])
        if first_ns > after_ns:
            began[subtask] = min(first_ns, began.get(subtask, first_ns))
    return began


def _at(ordered: list[tuple[int, int]], rank: float) -> float:
    seen = 0
    for step, count in ordered:
        seen += count
        if seen >= rank:
            return step * _AGE_STEP_NS / 1e6
    return math.nan
