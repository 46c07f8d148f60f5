"""Compute the rates of vertices in a window, from the counters at its beginning and its end."""

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

_PENDING = "pendingRecords"
"""Flink's name of the number of records that a source has still to read, FLIP-33."""


class Counters(NamedTuple):
    """Counters of one subtask since its start, at the time of a report."""

    at_ms: int
    records_in: int
    """Records that arrived; for a source, records that it emitted."""
    records_out: tuple[int, ...]
    """Records emitted, by operator of the chain."""
    busy_ns: int
    idle_ns: int
    back_pressured_ns: int
    pending: int | None = None
    """Records that a source has still to read, or None if it does not know."""


Sample = Mapping[SubtaskId, Counters]


def counters_of(report: TaskReport, is_source: bool, at_ms: int) -> Counters:
    """Return the counters in a report."""
    out = tuple([operator.records_out for operator in report.operators])
    records_in, pending = 0, None
    if report.operators:
        first = report.operators[0]
        records_in = first.records_out if is_source else first.records_in
        pending = first.user.get(_PENDING) if is_source else None
    # A user's source may report anything.
    known = None
    if isinstance(pending, (int, float)) and math.isfinite(pending) and pending >= 0:
        known = int(pending)
    return Counters(
        at_ms,
        records_in=records_in,
        records_out=out,
        busy_ns=report.busy_ns,
        idle_ns=report.idle_ns,
        back_pressured_ns=report.back_pressured_ns,
        pending=known,
    )


class MetricsWindow:
    """Hold samples of the last `window_ms`, one per `every_ms`, of tasks that ran all the time."""

    def __init__(self, window_ms: int, every_ms: int) -> None:
        self._window_ms = window_ms
        self._every_ms = every_ms
        self._newest: dict[SubtaskId, Counters] = {}
        self._samples: deque[tuple[int, Sample]] = deque()

    def clear(self) -> None:
        """Discard all samples: tasks and their counters start again."""
        self._newest.clear()
        self._samples.clear()

    def reported(self, counters: Iterable[tuple[SubtaskId, Counters]]) -> None:
        """Store counters that subtasks have reported."""
        self._newest.update(counters)

    def next_ms(self) -> int | None:
        """Return when the next sample is due, or None for as soon as all subtasks have reported."""
        return self._samples[-1][0] + self._every_ms if self._samples else None

    def sample(self, subtasks: int, now_ms: int) -> bool:
        """Take a sample of the newest counters, if one is due and all subtasks have reported. Return whether."""
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
        """The first and the last sample of a full window."""
        return self._samples[0][1], self._samples[-1][1]


_IDLE_MIN = 0.05
"""A source that is idle for this part of the time has not fallen behind."""
_DEMAND_FACTOR_MAX = 4.0
"""Assumed limit of the demand of a source under back pressure that does not know its pending records, as a multiple of
what it emits."""
_REMAINING_MIN = 0.01
"""The least part of a slot's time that its other tasks are assumed to leave."""
_AGGREGATE = {MetricAggregator.MAX: max, MetricAggregator.MIN: min}


@dataclasses.dataclass(frozen=True)
class VertexRates:
    """Rates of one vertex in records per second, over all subtasks."""

    records_in: float
    records_out: tuple[float, ...]
    """Rates by operator."""
    utilization: float
    """Part of the time left by other tasks of their slots in which its subtasks are busy. 1 is full."""
    load: float
    """Part of the time in which the slots of its subtasks are busy, with all their tasks."""
    demand: float
    """For a source: rate that it would emit without back pressure."""
    pending: int | None
    """For a source: records that it has still to read, or None if it does not know."""


class _Shares(NamedTuple):
    """Rates of one subtask in records per second, and the parts of its time."""

    records_in: float
    records_out: tuple[float, ...]
    busy: float
    idle: float
    back_pressured: float
    pending_growth: float


def rates_of(topology: Topology, first: Sample, last: Sample, aggregator: MetricAggregator) -> list[VertexRates]:
    """Return the rates of all vertices. Tasks of a slot share its process: while one is busy, the others wait."""
    shares = {task: _shares(first[task], last[task]) for task in last}
    busy_of_slot: dict[tuple[int, int], float] = defaultdict(float)
    for (id, subtask), share in shares.items():
        busy_of_slot[topology[id].level, subtask] += share.busy
    rates = []
    for vertex in topology:
        own = [shares[SubtaskId(vertex.id, subtask)] for subtask in range(vertex.parallelism)]
        slots = [busy_of_slot[vertex.level, subtask] for subtask in range(vertex.parallelism)]
        used = [one.busy / max(1 - (slot - one.busy), _REMAINING_MIN) for one, slot in zip(own, slots, strict=True)]
        rates.append(
            _rates(
                vertex,
                own,
                utilization=_aggregated(used, aggregator),
                load=_aggregated(slots, aggregator),
                last=last,
            )
        )
    return rates


def _rates(vertex: ScaledVertex, own: list[_Shares], *, utilization: float, load: float, last: Sample) -> VertexRates:
    pending = [last[SubtaskId(vertex.id, subtask)].pending for subtask in range(vertex.parallelism)]
    known = [count for count in pending if count is not None]
    records_in = sum(one.records_in for one in own)
    if known:
        demand = max(0.0, records_in + sum(one.pending_growth for one in own))
    else:
        demand = sum(_estimated_demand(one) for one in own)
    out = tuple(sum(counts) for counts in zip(*(one.records_out for one in own), strict=False))
    return VertexRates(
        records_in=records_in,
        records_out=out,
        utilization=utilization,
        load=load,
        demand=demand,
        pending=sum(known) if known else None,
    )


def _shares(first: Counters, last: Counters) -> _Shares:
    ms = max(1, last.at_ms - first.at_ms)
    outs = zip(first.records_out, last.records_out, strict=False)
    grown = 0 if first.pending is None or last.pending is None else last.pending - first.pending
    return _Shares(
        records_in=(last.records_in - first.records_in) * 1000 / ms,
        records_out=tuple([(after - before) * 1000 / ms for before, after in outs]),
        busy=_share(last.busy_ns - first.busy_ns, ms),
        idle=_share(last.idle_ns - first.idle_ns, ms),
        back_pressured=_share(last.back_pressured_ns - first.back_pressured_ns, ms),
        pending_growth=grown * 1000 / ms,
    )


def _share(ns: int, of_ms: int) -> float:
    return min(max(ns / 1_000_000 / of_ms, 0.0), 1.0)


def _estimated_demand(source: _Shares) -> float:
    """Return the rate that a subtask of a source would emit without back pressure."""
    if source.idle >= _IDLE_MIN:
        return source.records_in
    return source.records_in / max(1 - source.back_pressured, 1 / _DEMAND_FACTOR_MAX)


def _aggregated(loads: list[float], aggregator: MetricAggregator) -> float:
    aggregate = _AGGREGATE.get(aggregator)
    return min(sum(loads) / len(loads) if aggregate is None else aggregate(loads), 1.0)
