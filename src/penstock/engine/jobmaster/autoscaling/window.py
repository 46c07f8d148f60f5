"""The counters of a job's subtasks over the last while: what rates are measured from."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.engine.rpc.messages import TaskReport
from penstock.engine.runtime.ids import SubtaskId

_PENDING = "pendingRecords"
"""Flink's name, FLIP-33: what a source that knows it has still to read."""


class Counters(NamedTuple):
    """Of one subtask since it started, as it has reported them at a time."""

    at_ms: int
    records_in: int
    """Of a source: those that it has emitted."""
    records_out: tuple[int, ...]
    """By operator of its chain."""
    busy_ns: int
    idle_ns: int
    back_pressured_ns: int
    pending: int | None = None
    """How many records a source has still to read; None: it does not know."""


Sample = Mapping[SubtaskId, Counters]


def counters_of(report: TaskReport, is_source: bool, at_ms: int) -> Counters:
    """What of the report of a subtask counts."""
    out = tuple(operator.records_out for operator in report.operators)
    pending = report.operators[0].user.get(_PENDING) if report.operators and is_source else None
    records_in = sum(out[:1]) if is_source else sum(operator.records_in for operator in report.operators[:1])
    # A user's source may say anything.
    known = None
    if isinstance(pending, (int, float)) and math.isfinite(pending) and pending >= 0:
        known = int(pending)
    return Counters(at_ms, records_in, out, report.busy_ns, report.idle_ns, report.back_pressured_ns, known)


class MetricsWindow:
    """Samples of the last `window_ms`, one each `every_ms`, of tasks that ran all the time."""

    def __init__(self, window_ms: int, every_ms: int) -> None:
        self._window_ms = window_ms
        self._every_ms = every_ms
        self._newest: dict[SubtaskId, Counters] = {}
        self._samples: deque[tuple[int, Sample]] = deque()

    def clear(self) -> None:
        """Tasks start again, and their counters with them."""
        self._newest.clear()
        self._samples.clear()

    def reported(self, counters: Iterable[tuple[SubtaskId, Counters]]) -> None:
        """Subtasks have reported."""
        self._newest.update(counters)

    def next_ms(self) -> int | None:
        """When the next sample is due; None: as soon as all have reported."""
        return self._samples[-1][0] + self._every_ms if self._samples else None

    def sample(self, subtasks: int, now_ms: int) -> bool:
        """Note the newest counters, if it is time and all subtasks have reported. True: a sample was taken."""
        next_ms = self.next_ms()
        if len(self._newest) < subtasks or (next_ms is not None and now_ms < next_ms):
            return False
        self._samples.append((now_ms, dict(self._newest)))
        while len(self._samples) > 1 and self._samples[1][0] <= now_ms - self._window_ms:
            self._samples.popleft()
        return True

    @property
    def is_full(self) -> bool:
        """Whether the samples span the window."""
        return len(self._samples) > 1 and self._samples[-1][0] - self._samples[0][0] >= self._window_ms

    @property
    def ends(self) -> tuple[Sample, Sample]:
        """The first and the last sample. It is full."""
        return self._samples[0][1], self._samples[-1][1]
