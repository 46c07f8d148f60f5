"""Decide the parallelism of vertices, with reasons, from the counters of subtasks and the time.

    started       Counters begin at zero: after the stabilization interval, samples fill the window.
    propose       The window is full: compare the parallelism that each vertex needs with the one it has.
    decide        The number of free slots is known, too.

Vertices change together: if one of them is outside the limits of its utilization, all that need more subtasks get more.
Vertices get fewer subtasks if fewer were enough for the scale-down interval. While the load changes, the parallelism
does not (Persistence). Source: evaluation.py; Flink Kubernetes Operator docs, "Autoscaler".
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from penstock.common.configuration.choices import KeyGroupOrPartitionsAdjustMode
from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision, VertexScaling
from penstock.engine.jobmaster.autoscaling.evaluation import Evaluation, evaluate
from penstock.engine.jobmaster.autoscaling.rates import MetricsWindow, counters_of, rates_of
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.jobmaster.autoscaling.topology import ScaledVertex, Topology, groups_of, slots_of
from penstock.engine.rpc.messages import TaskReport
from penstock.engine.runtime.ids import SubtaskId


class DelayedScaleDown:
    """Reduce parallelism only if fewer subtasks were enough for an interval: several small steps become one.

    Vertices with a common parallelism are one group. Source: FLINK-36018, job.autoscaler.scale-down.interval.
    """

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._since_ms: dict[int, int] = {}
        self._needed: dict[int, deque[tuple[int, int]]] = {}
        """Times and parallelism that would have been enough, by group. Later, higher values replace lower ones."""

    def clear(self) -> None:
        """Forget all proposals: tasks start again with another parallelism."""
        self._since_ms.clear()
        self._needed.clear()

    def withdraw(self, group: int) -> None:
        """Forget the proposals for a group, which needs all its subtasks."""
        self._since_ms.pop(group, None)
        self._needed.pop(group, None)

    def propose(self, group: int, parallelism: int, now_ms: int) -> int | None:
        """Propose fewer subtasks for a group. Return the highest proposal of the interval, or None before its end."""
        since_ms = self._since_ms.setdefault(group, now_ms)
        needed = self._needed.setdefault(group, deque())
        while needed and needed[-1][1] <= parallelism:
            needed.pop()
        needed.append((now_ms, parallelism))
        while needed[0][0] < now_ms - self._interval_ms:
            needed.popleft()
        return needed[0][1] if now_ms - since_ms >= self._interval_ms else None


def fit_to_free_slots(topology: Topology, wanted: Mapping[int, int], free_slots: int | None) -> dict[int, int]:
    """Return the parallelism by vertex, as close to `wanted` as slots allow. `free_slots`: None for any number.

    Vertices that lose subtasks free slots for others. The group that lacks the largest share gets the next slot.
    Vertices of a group keep a common parallelism.
    """
    if free_slots is None:
        return dict(wanted)
    slots = slots_of(topology, {}) + free_slots
    groups = {first: members for first, members in groups_of(topology).items() if first in wanted}
    now = {first: members[0].parallelism for first, members in groups.items()}
    given = {first: min(subtasks, wanted[first]) for first, subtasks in now.items()}

    def by_vertex(subtasks: Mapping[int, int]) -> dict[int, int]:
        return {member.id: subtasks[first] for first, members in groups.items() for member in members}

    lacking = {first for first in groups if given[first] < wanted[first]}
    while lacking:
        neediest = max(lacking, key=lambda first: (wanted[first] / given[first], -first))
        more = {**given, neediest: given[neediest] + 1}
        if slots_of(topology, by_vertex(more)) > slots:
            lacking.remove(neediest)
            continue
        given = more
        if given[neediest] == wanted[neediest]:
            lacking.remove(neediest)
    return by_vertex(given)


_ROUNDING = 1e-9


def needed_parallelism(vertex: ScaledVertex, evaluation: Evaluation, settings: AutoscalerSettings) -> int:
    """Return the parallelism with the target utilization, within the vertex's limits."""
    capacity = evaluation.capacity(settings.utilization, settings, with_restart=True)
    factor = capacity / evaluation.true_rate
    if factor < 1:
        # Its neighbors may lose subtasks, too: the remaining slots have to do the work of all.
        factor = min(capacity / evaluation.shared_rate, 1.0)
    factor = min(max(factor, 1 - settings.scale_down_factor_max), 1 + settings.scale_up_factor_max)
    now = vertex.parallelism
    # As in Flink, a parallelism that is already beyond the limits is allowed.
    least, most = min(now, settings.parallelism_min), min(vertex.most, max(now, settings.parallelism_max))
    needed = min(max(math.ceil(now * factor - _ROUNDING), least), most)
    return needed if needed == now or not vertex.keyed else _aligned(vertex, needed, most, settings.adjust_mode)


def _aligned(vertex: ScaledVertex, needed: int, most: int, mode: KeyGroupOrPartitionsAdjustMode) -> int:
    """Return the next parallelism in the same direction that distributes key groups evenly."""
    groups, now = vertex.most, vertex.parallelism
    if mode is KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD:
        # When scaling down, end at the present parallelism, where nothing changes.
        end = most if needed > now else now
        for subtasks in range(needed, end + 1):
            if groups % subtasks == 0:
                return subtasks
    # With fewer subtasks the busiest one may have the same number of key groups.
    fewest = math.ceil(groups / math.ceil(groups / needed))
    return needed if needed > now >= fewest else fewest


class Misfit(enum.Enum):
    """A reason to change the parallelism of a job."""

    TOO_FEW = "a vertex has too few subtasks"
    TOO_MANY = "a vertex has more subtasks than it needs"


class Persistence:
    """Find misfits that have lasted for a whole window, so that all samples measure the present load.

    A window in which the load changes shows a mean of two loads. Its decision would be too small a step, and the next
    step would have to wait until tasks are stable again and another window is full. A misfit at the first look counts
    as having lasted for the window.
    """

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._since_ms: dict[Misfit, int] = {}
        self._has_looked = False

    def clear(self) -> None:
        """Forget all misfits: another window begins."""
        self._since_ms.clear()
        self._has_looked = False

    def look(self, found: set[Misfit], now_ms: int) -> set[Misfit]:
        """Record the present misfits. Return those that have lasted."""
        first_ms = now_ms if self._has_looked else now_ms - self._window_ms
        self._has_looked = True
        self._since_ms = {misfit: self._since_ms.get(misfit, first_ms) for misfit in found}
        return {misfit for misfit, since_ms in self._since_ms.items() if now_ms - since_ms >= self._window_ms}


class _Need(NamedTuple):
    """The vertex of a group that needs the highest parallelism."""

    vertex: ScaledVertex
    evaluation: Evaluation
    parallelism: int


@dataclasses.dataclass(frozen=True)
class _LastScaling:
    """The last change of a vertex, and its true rate before."""

    scaling: VertexScaling
    true_rate: float


class Autoscaler:
    """Decide the parallelism of one job."""

    def __init__(self, settings: AutoscalerSettings) -> None:
        self._settings = settings
        self._topology: Topology = ()
        """Topology of the tasks that run, or ran last."""
        self._stable_ms: int | None = None
        """When measuring begins, or None while some tasks do not run."""
        self._window = MetricsWindow(settings.window_ms, settings.sample_every_ms)
        self._persistence = Persistence(settings.window_ms)
        self._delayed = DelayedScaleDown(settings.scale_down_interval_ms)
        self._true_rates: dict[int, float] = {}
        self._last: dict[int, _LastScaling] = {}

    # Measuring.

    def started(self, topology: Topology, now_ms: int) -> None:
        """Begin to measure: all tasks run, and their counters begin at zero."""
        changed = [vertex.parallelism for vertex in topology] != [vertex.parallelism for vertex in self._topology]
        self._topology = topology
        if changed:
            # Not after a failure: the load is the same, so earlier proposals still hold.
            self._delayed.clear()
        self.restart_measuring(now_ms)

    def restart_measuring(self, now_ms: int) -> None:
        """Discard all samples, and measure again after the stabilization interval."""
        self._stable_ms = now_ms + self._settings.stabilization_ms
        self._forget()

    def stopped(self) -> None:
        """Stop measuring: some tasks do not run."""
        self._stable_ms = None
        self._forget()

    def _forget(self) -> None:
        self._window.clear()
        self._persistence.clear()

    def reported(self, reports: Iterable[TaskReport], now_ms: int) -> None:
        """Store counters that subtasks report."""
        if self._stable_ms is not None and now_ms >= self._stable_ms:
            self._window.reported(
                (
                    SubtaskId(report.vertex, report.subtask),
                    counters_of(report, not self._topology[report.vertex].feeds, now_ms),
                )
                for report in reports
                if not report.initializing
            )

    def wake_at_ms(self) -> int | None:
        """Return when the next sample is due, or None."""
        return self._window.next_ms() if self._stable_ms is not None else None

    # Decisions.

    def propose(self, now_ms: int) -> ScalingDecision | None:
        """Return the changes that the load requires, whatever the number of slots, or None."""
        subtasks = sum(vertex.parallelism for vertex in self._topology)
        if self._stable_ms is None or not self._window.sample(subtasks, now_ms) or not self._window.is_full:
            return None
        rates = rates_of(self._topology, *self._window.ends, self._settings.aggregator)
        evaluations = evaluate(self._topology, rates, self._settings)
        self._true_rates = {
            vertex.id: evaluation.true_rate for vertex, evaluation in zip(self._topology, evaluations, strict=True)
        }
        return self._proposal(evaluations, now_ms)

    def _proposal(self, evaluations: list[Evaluation], now_ms: int) -> ScalingDecision | None:
        notes: list[str] = []
        scalings: list[VertexScaling] = []
        found: set[Misfit] = set()
        for first, members in groups_of(self._topology).items():
            need = self._need(members, evaluations)
            misfit = self._misfit(members, need, notes)
            if misfit is Misfit.TOO_MANY:
                found.add(misfit)
                after = self._delayed.propose(first, need.parallelism, now_ms)
            else:
                self._delayed.withdraw(first)
                after = None if misfit is None else need.parallelism
                if misfit and any(evaluations[vertex.id].is_too_slow(self._settings) for vertex in members):
                    found.add(misfit)
            if after is not None:
                scalings += [
                    VertexScaling(v.id, v.name, before=v.parallelism, after=after, reason=_reason(need))
                    for v in members
                ]
        lasting = self._persistence.look(found, now_ms)
        if Misfit.TOO_MANY not in lasting:
            scalings = [scaling for scaling in scalings if scaling.after > scaling.before]
        if not lasting or (not any(s.after < s.before for s in scalings) and Misfit.TOO_FEW not in lasting):
            scalings = []
        return ScalingDecision(now_ms, tuple(scalings), tuple(notes)) if scalings or notes else None

    def decide(self, proposed: ScalingDecision, free_slots: int | None) -> ScalingDecision:
        """Return the part of the proposal that free slots allow. The caller is about to carry it out."""
        wanted = proposed.parallelism
        given = fit_to_free_slots(self._topology, wanted, free_slots)
        scalings = tuple(
            msgspec.structs.replace(scaling, after=given[scaling.vertex])
            for scaling in proposed.vertices
            if given[scaling.vertex] != scaling.before
        )
        notes = proposed.notes
        if given != wanted:
            more = slots_of(self._topology, wanted) - slots_of(self._topology, {})
            lacking = ", ".join(f"{s.name} {s.after}" for s in proposed.vertices if given[s.vertex] != s.after)
            notes = (*notes, f"{more} more slots are needed, but Spark has {free_slots} free slots: {lacking}")
        self._last |= {s.vertex: _LastScaling(s, self._true_rates[s.vertex]) for s in scalings}
        return ScalingDecision(proposed.at_ms, scalings, notes)

    def _need(self, members: list[ScaledVertex], evaluations: list[Evaluation]) -> _Need:
        needs = [
            _Need(vertex, evaluations[vertex.id], needed_parallelism(vertex, evaluations[vertex.id], self._settings))
            for vertex in members
        ]
        most = min(vertex.most for vertex in members)
        neediest = max(needs, key=lambda need: need.parallelism)
        return neediest._replace(parallelism=min(neediest.parallelism, most))

    def _misfit(self, members: list[ScaledVertex], need: _Need, notes: list[str]) -> Misfit | None:
        """Return whether the parallelism of a group should change. Add a note if it should but cannot."""
        vertex, evaluation, parallelism = need
        fixed = next((f"'{member.name}': {member.fixed}" for member in members if member.fixed), None)
        if parallelism > vertex.parallelism:
            if fixed is not None and evaluation.is_too_slow(self._settings):
                notes.append(f"'{vertex.name}' needs {parallelism} subtasks, but its parallelism is fixed. {fixed}")
            return None if fixed is not None or self._is_ineffective(need, notes) else Misfit.TOO_FEW
        is_less = parallelism < vertex.parallelism and evaluation.is_too_fast(self._settings)
        return Misfit.TOO_MANY if is_less and fixed is None else None

    def _is_ineffective(self, need: _Need, notes: list[str]) -> bool:
        """Return whether the last increase had too little effect to add more subtasks."""
        before = self._last.get(need.vertex.id)
        if before is None or before.scaling.after != need.vertex.parallelism or math.isinf(before.true_rate):
            return False
        scaling = before.scaling
        expected = before.true_rate * (scaling.after / scaling.before - 1)
        increase = need.evaluation.true_rate - before.true_rate
        if expected <= 0 or increase / expected >= self._settings.effect_min:
            return False
        if self._settings.detects_ineffective:
            notes.append(
                f"'{scaling.name}' gets no more subtasks: the increase from {scaling.before} to {scaling.after} was "
                f"expected to add {expected:,.0f} records/s of capacity, and added {increase:,.0f}"
            )
        return self._settings.detects_ineffective


def _reason(need: _Need) -> str:
    vertex, evaluation, _ = need
    catch_up = f" and {evaluation.catch_up_rate:,.0f} to catch up" if evaluation.catch_up_rate >= 1 else ""
    if math.isinf(evaluation.true_rate):
        return "no records arrived"
    return (
        f"the input is {evaluation.target_rate:,.0f} records/s{catch_up}, "
        f"{vertex.parallelism} subtask{'s'[: vertex.parallelism != 1]} can process {evaluation.true_rate:,.0f}"
    )
