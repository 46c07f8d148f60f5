"""The newest checkpoints and savepoints of a job that have completed or failed, and statistics of all of them.

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

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_WINDOW = 10_000
"""How many of the newest numbers quantiles are computed from, as in Flink."""


class Summary(NamedTuple):
    """Lowest, highest, mean and quantiles of numbers. All 0 without numbers. Flink: StatsSummarySnapshot."""

    lowest: float = 0
    highest: float = 0
    mean: float = 0
    quantiles: Sequence[float] = (0.0,) * len(QUANTILES)
    """In the order of QUANTILES."""

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        """Return the summary of numbers in any order."""
        ordered = sorted(values)
        if not ordered:
            return Summary()
        return Summary(ordered[0], ordered[-1], sum(ordered) / len(ordered), _quantiles(ordered))


class RunningSummary:
    """The summary of all numbers so far. Flink: StatsSummary."""

    def __init__(self) -> None:
        self.now = Summary()
        self._count = 0
        self._total = 0.0
        self._newest: deque[float] = deque()
        self._ordered: list[float] = []
        """The newest numbers in ascending order."""

    def add(self, value: float) -> None:
        """Add a number."""
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


_REPORTS_MAX = 100


class LatestCheckpoints(NamedTuple):
    """The newest report of each kind, which is never dropped. None: there was no such report yet."""

    completed: CheckpointReport | None = None
    """The newest completed checkpoint."""
    savepoint: CheckpointReport | None = None
    """The newest completed savepoint."""
    failed: CheckpointReport | None = None
    """The newest failed checkpoint or savepoint."""

    @property
    def restorable(self) -> CheckpointReport | None:
        """The newest completed checkpoint or savepoint."""
        completed = [one for one in (self.completed, self.savepoint) if one is not None]
        return max(completed, key=lambda one: one.checkpoint_id, default=None)


class CheckpointSummaries(NamedTuple):
    """Summaries over all completed checkpoints and savepoints."""

    written_bytes: Summary = Summary()
    total_bytes: Summary = Summary()
    duration_ms: Summary = Summary()
    in_flight_bytes: Summary = Summary()


class CheckpointHistory(Sequence[CheckpointReport]):
    """A sequence of the reports of checkpoints, oldest first, including checkpoints that are no longer retained.

    Holds the newest hundred, and the newest completed one if a hundred checkpoints failed after it.
    """

    def __init__(self) -> None:
        self.latest = LatestCheckpoints()
        self.savepoints: deque[CheckpointReport] = deque(maxlen=_REPORTS_MAX)
        """The reports of the newest hundred savepoints, oldest first."""
        self.completed_count = 0
        """How many checkpoints and savepoints have completed since the job was submitted."""
        self.failed_count = 0
        self._checkpoints: deque[CheckpointReport] = deque(maxlen=_REPORTS_MAX)
        self._items: Sequence[CheckpointReport] = ()
        self._figures: Mapping[str, RunningSummary] = {name: RunningSummary() for name in CheckpointSummaries._fields}

    @property
    def summaries(self) -> CheckpointSummaries:
        """The summaries of the completed checkpoints and savepoints."""
        return CheckpointSummaries(**{name: running.now for name, running in self._figures.items()})

    def completed(self, pending: PendingCheckpoint, manifest: Manifest) -> None:
        """Add a checkpoint whose manifest is stored."""
        self.completed_count += 1
        report = CheckpointReport.completed(pending, manifest)
        kind = {"savepoint": report} if report.savepoint else {"completed": report}
        self.latest = self.latest._replace(**kind)
        for name, running in self._figures.items():
            running.add(getattr(report, name))
        self._add(report)

    def failed(self, pending: PendingCheckpoint, reason: CheckpointFailureReason, detail: object, now_ms: int) -> None:
        """Add an aborted checkpoint."""
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
        self._items = [completed, *self._checkpoints] if completed is not None and is_older else [*self._checkpoints]

    @overload
    def __getitem__(self, index: int) -> CheckpointReport: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[CheckpointReport]: ...

    def __getitem__(self, index: int | slice) -> CheckpointReport | Sequence[CheckpointReport]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)
