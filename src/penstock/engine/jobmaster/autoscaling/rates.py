"""What the vertices of a job have done in a window, from the counters at its begin and at its end."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.common.configuration.choices import MetricAggregator
from penstock.engine.jobmaster.autoscaling.topology import ScaledVertex, Topology
from penstock.engine.rpc.messages import TaskReport
from penstock.engine.runtime.ids import SubtaskId

# The counters of a job's subtasks over the last while: what rates are measured from.

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


_WAITS = 0.05
"""A source that has waited for this part of the time has not fallen behind."""
_UNSEEN_MOST = 4.0
"""A source that is held back, and does not know what is left, is taken to have at most so many times what it emits."""
_LEFT_LEAST = 0.01
"""The least part of a slot's time that is taken to be left by its other tasks."""
_AGGREGATE = {MetricAggregator.MAX: max, MetricAggregator.MIN: min}


@dataclasses.dataclass(frozen=True)
class VertexRates:
    """Records each second, over all subtasks."""

    records_in: float
    records_out: tuple[float, ...]
    """By operator."""
    utilization: float
    """For which part of the time that their slots leave them its subtasks are busy; 1: they can do no more."""
    load: float
    """For which part of their time the slots of its subtasks are busy, with all that they host."""
    demand: float
    """Of a source: what it would emit if nothing held it back."""
    pending: int | None
    """Of a source: how many records it has still to read; None: it does not know."""


@dataclasses.dataclass(frozen=True)
class _Shares:
    """Of one subtask: records each second, and the parts of its time."""

    records_in: float
    records_out: tuple[float, ...]
    busy: float
    idle: float
    back_pressured: float
    pending_growth: float


def rates_of(topology: Topology, first: Sample, last: Sample, aggregator: MetricAggregator) -> list[VertexRates]:
    """By vertex. Tasks of one slot share its process, so what one of them is busy, others wait."""
    shares = {task: _shares(first[task], last[task]) for task in last}
    busy_of_slot: dict[tuple[int, int], float] = defaultdict(float)
    for (id, subtask), share in shares.items():
        busy_of_slot[topology[id].level, subtask] += share.busy
    rates = []
    for vertex in topology:
        own = [shares[SubtaskId(vertex.id, subtask)] for subtask in range(vertex.parallelism)]
        slots = [busy_of_slot[vertex.level, subtask] for subtask in range(vertex.parallelism)]
        used = [one.busy / max(1 - (slot - one.busy), _LEFT_LEAST) for one, slot in zip(own, slots, strict=True)]
        rates.append(_rates(vertex, own, _aggregated(used, aggregator), _aggregated(slots, aggregator), last))
    return rates


def _rates(vertex: ScaledVertex, own: list[_Shares], utilization: float, load: float, last: Sample) -> VertexRates:
    pending = [last[SubtaskId(vertex.id, subtask)].pending for subtask in range(vertex.parallelism)]
    known = [count for count in pending if count is not None]
    records_in = sum(one.records_in for one in own)
    if known:
        demand = max(0.0, records_in + sum(one.pending_growth for one in own))
    else:
        demand = sum(_unseen(one) for one in own)
    out = tuple(sum(counts) for counts in zip(*(one.records_out for one in own), strict=False))
    return VertexRates(records_in, out, utilization, load, demand, sum(known) if known else None)


def _shares(first: Counters, last: Counters) -> _Shares:
    ms = max(1, last.at_ms - first.at_ms)
    outs = zip(first.records_out, last.records_out, strict=False)
    grown = 0 if first.pending is None or last.pending is None else last.pending - first.pending
    return _Shares(
        (last.records_in - first.records_in) * 1000 / ms,
        tuple((after - before) * 1000 / ms for before, after in outs),
        _share(last.busy_ns - first.busy_ns, ms),
        _share(last.idle_ns - first.idle_ns, ms),
        _share(last.back_pressured_ns - first.back_pressured_ns, ms),
        grown * 1000 / ms,
    )


def _share(ns: int, of_ms: int) -> float:
    return min(max(ns / 1_000_000 / of_ms, 0.0), 1.0)


def _unseen(source: _Shares) -> float:
    """What a subtask of a source would emit: one that never waits, but is held back, has more than it emits."""
    if source.idle >= _WAITS:
        return source.records_in
    return source.records_in / max(1 - source.back_pressured, 1 / _UNSEEN_MOST)


def _aggregated(loads: list[float], aggregator: MetricAggregator) -> float:
    aggregate = _AGGREGATE.get(aggregator)
    return min(sum(loads) / len(loads) if aggregate is None else aggregate(loads), 1.0)
