"""The decider: counters of subtasks and the time go in, the parallelism of vertices comes out, with the reasons.

    started       tasks count from nothing: for the stabilization interval nothing is measured, then the window fills
    propose       it is full: what each vertex needs is compared with what it has
    decide        the slots that there are now are known, too

Vertices change together: if one of them is outside the limits of its utilization, all that need more subtasks get
them. Fewer are given where fewer were enough for the scale-down interval. A load that changes is waited for
(persistence.py). Source: evaluation.py; Flink Kubernetes Operator docs, "Autoscaler".
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

# Fewer subtasks, but only where they were enough for some time: several small steps down become one.
#
# Source: FLINK-36018, job.autoscaler.scale-down.interval.


class DelayedScaleDown:
    """Of one job. Vertices that have one parallelism are one group."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._since_ms: dict[int, int] = {}
        self._needed: dict[int, deque[tuple[int, int]]] = {}
        """By group: when so many would have been enough, the most first: later ones that are higher replace lower."""

    def clear(self) -> None:
        """All tasks start again."""
        self._since_ms.clear()
        self._needed.clear()

    def withdraw(self, group: int) -> None:
        """The group needs all that it has."""
        self._since_ms.pop(group, None)
        self._needed.pop(group, None)

    def propose(self, group: int, parallelism: int, now_ms: int) -> int | None:
        """The group needs fewer. Returns what it was to have at the most within the interval; None: not yet."""
        since_ms = self._since_ms.setdefault(group, now_ms)
        needed = self._needed.setdefault(group, deque())
        while needed and needed[-1][1] <= parallelism:
            needed.pop()
        needed.append((now_ms, parallelism))
        while needed[0][0] < now_ms - self._interval_ms:
            needed.popleft()
        return needed[0][1] if now_ms - since_ms >= self._interval_ms else None


# Subtasks for the slots that there are: who lacks the most gets the next one.


def fitting(topology: Topology, wanted: Mapping[int, int], free_slots: int | None) -> dict[int, int]:
    """As much of the wanted parallelism, by vertex, as fits. `free_slots`: besides those of the job; None: all fits.

    Fewer subtasks free slots for others. A group of vertices that have one parallelism keeps it.
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


# The parallelism that a vertex needs, within the limits that it has.

_ROUNDING = 1e-9


def needed_parallelism(vertex: ScaledVertex, evaluation: Evaluation, settings: AutoscalerSettings) -> int:
    """How many subtasks are busy for the target part of their time."""
    capacity = evaluation.capacity(settings.utilization, settings, with_restart=True)
    factor = capacity / evaluation.true_rate
    if factor < 1:
        # Its neighbours may lose subtasks, too: the slots that are left have to do the work of all.
        factor = min(capacity / evaluation.shared_rate, 1.0)
    factor = min(max(factor, 1 - settings.scale_down_factor_max), 1 + settings.scale_up_factor_max)
    now = vertex.parallelism
    # As in Flink, what the program has beyond the limits it keeps.
    least, most = min(now, settings.parallelism_min), min(vertex.most, max(now, settings.parallelism_max))
    needed = min(max(math.ceil(now * factor - _ROUNDING), least), most)
    return needed if needed == now or not vertex.keyed else _aligned(vertex, needed, most, settings.adjust_mode)


def _aligned(vertex: ScaledVertex, needed: int, most: int, mode: KeyGroupOrPartitionsAdjustMode) -> int:
    """A parallelism that does not leave some subtasks with more key groups than others, in the same direction."""
    groups, now = vertex.most, vertex.parallelism
    if mode is KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD:
        # Downwards at most what it has: that is no change.
        end = most if needed > now else now
        for subtasks in range(needed, end + 1):
            if groups % subtasks == 0:
                return subtasks
    # The busiest subtask has no more groups with fewer of them.
    fewest = math.ceil(groups / math.ceil(groups / needed))
    return needed if needed > now >= fewest else fewest


# Whether something has been so for a whole window: then all that was measured is of the load that there is now.
#
# A window in which the load has changed shows a mean of two loads. What follows from it would be a step too short, and
# the next step would have to wait until tasks are stable again and another window is full.


class Misfit(enum.Enum):
    """What may be wrong with the parallelism of a job."""

    TOO_FEW = "a vertex has too few subtasks"
    TOO_MANY = "a vertex has more subtasks than it needs"


class Persistence:
    """Since when it is so. What is so when it is looked at for the first time has been so for the whole window."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._since_ms: dict[Misfit, int] = {}
        self._has_looked = False

    def clear(self) -> None:
        """Another window begins."""
        self._since_ms.clear()
        self._has_looked = False

    def look(self, found: set[Misfit], now_ms: int) -> set[Misfit]:
        """What is so now. Returns what of it lasts."""
        first_ms = now_ms if self._has_looked else now_ms - self._window_ms
        self._has_looked = True
        self._since_ms = {misfit: self._since_ms.get(misfit, first_ms) for misfit in found}
        return {misfit for misfit, since_ms in self._since_ms.items() if now_ms - since_ms >= self._window_ms}


class _Need(NamedTuple):
    """Of a group of vertices: what the one that needs the most needs."""

    vertex: ScaledVertex
    evaluation: Evaluation
    parallelism: int


@dataclasses.dataclass(frozen=True)
class _Before:
    """The last change of a vertex, and what it could process before."""

    scaling: VertexScaling
    true_rate: float


class Autoscaler:
    """Of one job."""

    def __init__(self, settings: AutoscalerSettings) -> None:
        self._settings = settings
        self._topology: Topology = ()
        """Of the tasks that run, or ran last."""
        self._stable_ms: int | None = None
        """From when on it is measured; None: not all tasks run."""
        self._window = MetricsWindow(settings.window_ms, settings.sample_every_ms)
        self._persistence = Persistence(settings.window_ms)
        self._delayed = DelayedScaleDown(settings.scale_down_interval_ms)
        self._true_rates: dict[int, float] = {}
        self._last: dict[int, _Before] = {}

    # How the job is.

    def started(self, topology: Topology, now_ms: int) -> None:
        """All tasks run from now on, and count from nothing."""
        changed = [vertex.parallelism for vertex in topology] != [vertex.parallelism for vertex in self._topology]
        self._topology = topology
        if changed:
            # After a failure the load is the same: what was enough for half an hour still is.
            self._delayed.clear()
        self.starts_over(now_ms)

    def starts_over(self, now_ms: int) -> None:
        """What was measured does not count any more."""
        self._stable_ms = now_ms + self._settings.stabilization_ms
        self._forget()

    def stopped(self) -> None:
        """Some tasks do not run."""
        self._stable_ms = None
        self._forget()

    def _forget(self) -> None:
        self._window.clear()
        self._persistence.clear()

    def reported(self, reports: Iterable[TaskReport], now_ms: int) -> None:
        """Subtasks report their counters."""
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
        """When the next sample is due."""
        return self._window.next_ms() if self._stable_ms is not None else None

    # What is to be done.

    def propose(self, now_ms: int) -> ScalingDecision | None:
        """What the load asks for, whatever the slots. None: all is well, or it is not time to look."""
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
                scalings += [VertexScaling(v.id, v.name, v.parallelism, after, _reason(need)) for v in members]
        lasting = self._persistence.look(found, now_ms)
        if Misfit.TOO_MANY not in lasting:
            scalings = [scaling for scaling in scalings if scaling.after > scaling.before]
        if not lasting or (not any(s.after < s.before for s in scalings) and Misfit.TOO_FEW not in lasting):
            scalings = []
        return ScalingDecision(now_ms, tuple(scalings), tuple(notes)) if scalings or notes else None

    def decide(self, proposed: ScalingDecision, free_slots: int | None) -> ScalingDecision:
        """As much of the proposal as the free slots allow. It is about to be done."""
        wanted = proposed.parallelism
        given = fitting(self._topology, wanted, free_slots)
        scalings = tuple(
            msgspec.structs.replace(scaling, after=given[scaling.vertex])
            for scaling in proposed.vertices
            if given[scaling.vertex] != scaling.before
        )
        notes = proposed.notes
        if given != wanted:
            more = slots_of(self._topology, wanted) - slots_of(self._topology, {})
            lacking = ", ".join(f"{s.name} {s.after}" for s in proposed.vertices if given[s.vertex] != s.after)
            notes = (*notes, f"{more} more slots are needed, and Spark has {free_slots} free ones: {lacking}")
        self._last |= {s.vertex: _Before(s, self._true_rates[s.vertex]) for s in scalings}
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
        """Whether a group should have another parallelism, if it can; it may have its reasons to keep it."""
        vertex, evaluation, parallelism = need
        fixed = next((f"'{member.name}': {member.fixed}" for member in members if member.fixed), None)
        if parallelism > vertex.parallelism:
            if fixed is not None and evaluation.is_too_slow(self._settings):
                notes.append(f"'{vertex.name}' would need {parallelism} subtasks, and keeps its number. {fixed}")
            return None if fixed is not None or self._is_in_vain(need, notes) else Misfit.TOO_FEW
        is_less = parallelism < vertex.parallelism and evaluation.is_too_fast(self._settings)
        return Misfit.TOO_MANY if is_less and fixed is None else None

    def _is_in_vain(self, need: _Need, notes: list[str]) -> bool:
        """Whether the last subtasks that the vertex was given were of no use, so that it is given no more."""
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
                f"'{scaling.name}' is given no more subtasks: from {scaling.before} to {scaling.after} it became able "
                f"to process {increase:,.0f} records/s more, and {expected:,.0f} were expected"
            )
        return self._settings.detects_ineffective


def _reason(need: _Need) -> str:
    vertex, evaluation, _ = need
    catch_up = f" and {evaluation.catch_up_rate:,.0f} to catch up" if evaluation.catch_up_rate >= 1 else ""
    if math.isinf(evaluation.true_rate):
        return "nothing has come"
    return (
        f"{evaluation.target_rate:,.0f} records/s are to be processed{catch_up}, "
        f"{vertex.parallelism} subtask{'s'[: vertex.parallelism != 1]} can do {evaluation.true_rate:,.0f}"
    )
