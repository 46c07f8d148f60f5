"""Rates of a job's counters: their growth over the last seconds. Flink's rates cover a minute, or five seconds."""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from penstock.engine.jobmaster.metrics import AttemptReport, JobMetrics
from penstock.engine.rpc.messages import TaskReport

SAMPLE_EVERY_S = 1.0
_WINDOW_S = 5.0


class Growth(NamedTuple):
    """Reports of a subtask: the newest, and two samples of one attempt, from which rates follow."""

    before: TaskReport
    after: TaskReport
    seconds: float
    """The time between the samples; 0: there is only one."""
    now: TaskReport
    """The newest report, which may not be sampled yet. Of a job that has ended it is the last."""

    def per_second(self, before: float, after: float) -> float:
        """Return the growth of a number per second."""
        return (after - before) / self.seconds if self.seconds else 0.0


class Meter:
    """The rates of one job. A sample is a copy of a dict, so it costs next to nothing."""

    def __init__(self, metrics: JobMetrics) -> None:
        self._metrics = metrics
        self._samples: deque[tuple[float, dict[tuple[int, int], AttemptReport]]] = deque()
        self._lock = threading.Lock()

    def sample(self, now_s: float) -> None:
        """Sample the counters. `now_s`: of a clock that is never set back."""
        with self._lock:
            self._samples.append((now_s, self._metrics.of_attempts()))
            while now_s - self._samples[0][0] > _WINDOW_S and len(self._samples) > 2:
                self._samples.popleft()

    def growths(self) -> dict[tuple[int, int], Growth]:
        """Return the reports by vertex and subtask."""
        with self._lock:
            samples = list(self._samples)
        return {key: _growth(key, newest, samples) for key, newest in self._metrics.of_attempts().items()}


def _growth(
    key: tuple[int, int],
    newest: AttemptReport,
    samples: list[tuple[float, dict[tuple[int, int], AttemptReport]]],
) -> Growth:
    last_s, last = samples[-1] if samples else (0.0, {})
    after = last.get(key, newest)
    first, first_s = after, last_s
    for at_s, reports in reversed(samples):
        before = reports.get(key)
        # Counters of a new attempt start at zero, so earlier samples do not count. Spark may start a task a second time
        # within one attempt of ours.
        if before is None or before.attempt != after.attempt or _spent_ns(before.report) > _spent_ns(first.report):
            break
        first, first_s = before, at_s
    return Growth(first.report, after.report, last_s - first_s, newest.report)


def _spent_ns(report: TaskReport) -> int:
    return report.busy_ns + report.idle_ns + report.back_pressured_ns
