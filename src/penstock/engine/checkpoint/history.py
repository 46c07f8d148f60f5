"""The newest checkpoints and savepoints of a job that have completed or failed, and what is known of all of them.

Source: Flink docs, "Monitoring Checkpointing", History.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, overload

from penstock.engine.checkpoint.failure import CheckpointFailureReason
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.pending import PendingCheckpoint
from penstock.engine.checkpoint.report import CheckpointReport

# Lowest, highest, mean and quantiles of some numbers, or of all that there will have been. Flink: StatsSummary.

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_WINDOW = 10_000
"""So many of the newest numbers count for quantiles, as in Flink."""


class Summary(NamedTuple):
    """Of some numbers. All 0 if there are none."""

    lowest: float = 0
    highest: float = 0
    mean: float = 0
    quantiles: Sequence[float] = (0.0,) * len(QUANTILES)
    """In the order of QUANTILES."""

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        """Of numbers in no particular order."""
        ordered = sorted(values)
        if not ordered:
            return Summary()
        return Summary(ordered[0], ordered[-1], sum(ordered) / len(ordered), _quantiles(ordered))


class RunningSummary:
    """Of all numbers so far."""

    def __init__(self) -> None:
        self.now = Summary()
        self._count = 0
        self._total = 0.0
        self._newest: deque[float] = deque()
        self._ordered: list[float] = []
        """The same, by size."""

    def add(self, value: float) -> None:
        """There is one more."""
        self._count += 1
        self._total += value
        self._newest.append(value)
        insort(self._ordered, value)
        if len(self._newest) > _WINDOW:
            del self._ordered[bisect_left(self._ordered, self._newest.popleft())]
        lowest, highest = (value, value) if self._count == 1 else (self.now.lowest, self.now.highest)
        mean = self._total / self._count
        self.now = Summary(min(lowest, value), max(highest, value), mean, _quantiles(self._ordered))


def _quantiles(ordered: Sequence[float]) -> Sequence[float]:
    last = len(ordered) - 1
    return tuple(float(ordered[min(last, int(part * len(ordered)))]) for part in QUANTILES.values())


_MOST = 100


class LatestCheckpoints(NamedTuple):
    """The newest of each kind, however many others there were since. None: there was none yet."""

    completed: CheckpointReport | None = None
    """The newest checkpoint that has completed."""
    savepoint: CheckpointReport | None = None
    """The newest savepoint that has completed."""
    failed: CheckpointReport | None = None
    """The newest of both that has failed."""

    @property
    def restorable(self) -> CheckpointReport | None:
        """The newest of both that has completed."""
        completed = [one for one in (self.completed, self.savepoint) if one is not None]
        return max(completed, key=lambda one: one.checkpoint_id, default=None)


class CheckpointSummaries(NamedTuple):
    """Over all checkpoints and savepoints that have completed."""

    written_bytes: Summary = Summary()
    total_bytes: Summary = Summary()
    duration_ms: Summary = Summary()
    in_flight_bytes: Summary = Summary()


class CheckpointHistory(Sequence[CheckpointReport]):
    """As a sequence: the reports of checkpoints, oldest first, also of those that are not retained any more.

    A hundred, and the newest that has completed, when a hundred have failed since.
    """

    def __init__(self) -> None:
        self.latest = LatestCheckpoints()
        self.savepoints: deque[CheckpointReport] = deque(maxlen=_MOST)
        """The same of savepoints."""
        self.completed_count = 0
        """Of checkpoints and savepoints, since the job was submitted."""
        self.failed_count = 0
        self._checkpoints: deque[CheckpointReport] = deque(maxlen=_MOST)
        self._kept: Sequence[CheckpointReport] = ()
        self._figures: Mapping[str, RunningSummary] = {name: RunningSummary() for name in CheckpointSummaries._fields}

    @property
    def summaries(self) -> CheckpointSummaries:
        """Of figures."""
        return CheckpointSummaries(**{name: running.now for name, running in self._figures.items()})

    def completed(self, pending: PendingCheckpoint, manifest: Manifest) -> None:
        """The manifest of a checkpoint is stored."""
        self.completed_count += 1
        report = CheckpointReport.completed(pending, manifest)
        kind = {"savepoint": report} if report.savepoint else {"completed": report}
        self.latest = self.latest._replace(**kind)
        for name, running in self._figures.items():
            running.add(getattr(report, name))
        self._add(report)

    def failed(self, pending: PendingCheckpoint, reason: CheckpointFailureReason, detail: object, now_ms: int) -> None:
        """A checkpoint was aborted."""
        self.failed_count += 1
        report = CheckpointReport.failed(pending, reason, detail, now_ms)
        self.latest = self.latest._replace(failed=report)
        self._add(report)

    def _add(self, report: CheckpointReport) -> None:
        if report.savepoint:
            self.savepoints.append(report)
            return
        self._checkpoints.append(report)
        completed = self.latest.completed
        is_older = completed is not None and completed.checkpoint_id < self._checkpoints[0].checkpoint_id
        self._kept = [completed, *self._checkpoints] if completed is not None and is_older else [*self._checkpoints]

    @overload
    def __getitem__(self, index: int) -> CheckpointReport: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[CheckpointReport]: ...

    def __getitem__(self, index: int | slice) -> CheckpointReport | Sequence[CheckpointReport]:
        return self._kept[index]

    def __len__(self) -> int:
        return len(self._kept)
