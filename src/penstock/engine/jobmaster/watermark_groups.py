"""Watermark alignment, the part of the job master: how far the sources of a group may go.

Subtasks report their watermarks; every update interval the slowest of a group, plus the drift that is allowed, becomes
the limit for all of it. One that has no watermark yet does not limit the group; nor does one that is idle or has
ended. After a restart the last report of a subtask counts until its next one. Source: Flink docs,
"Generating Watermarks", Watermark alignment; FLIP-182; SourceCoordinator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.time.earliest import earliest
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.task.events import AlignWatermarks, ControlEvent

Send = Callable[[int, int, ControlEvent], None]


@dataclasses.dataclass
class _Group:
    max_drifts_ms: dict[int, int]
    """Of each source, by its vertex."""
    update_interval_ms: int
    members: list[SubtaskId]
    watermarks: dict[SubtaskId, int]
    """Of those that have reported."""
    slowest: int | None = MAX_TIMESTAMP
    """The watermark from which the limits follow that its members know; None: some of them know nothing."""
    next_ms: int | None = None
    """When the limit is computed next; None: nothing was reported since the last time."""

    def changed(self, now_ms: int) -> None:
        """A member's watermark advanced."""
        if self.next_ms is None:
            self.next_ms = now_ms + self.update_interval_ms


class WatermarkGroups:
    """Of one job. `send` sends an event to a task, by vertex and subtask."""

    def __init__(self, graph: JobGraph, send: Send) -> None:
        self._send = send
        self._groups = _groups_of(graph)

    def rescaled(self, graph: JobGraph) -> None:
        """The plan of the present attempts. What subtasks of a source had reported that has others now is forgotten."""
        for name, group in _groups_of(graph).items():
            known = self._groups[name]
            changed = {task.vertex for task in {*group.members} ^ {*known.members}}
            known.members = group.members
            known.watermarks = {task: at for task, at in known.watermarks.items() if task.vertex not in changed}

    def reported(self, task: SubtaskId, name: str, watermark: int, now_ms: int) -> None:
        """A source has come this far (ms)."""
        group = self._groups[name]
        group.watermarks[task] = watermark
        group.changed(now_ms)

    def ended(self, task: SubtaskId, now_ms: int) -> None:
        """A task has read all its data."""
        for group in self._groups.values():
            if task in group.members:
                group.watermarks[task] = MAX_TIMESTAMP
                group.changed(now_ms)

    def restarted(self, tasks: Iterable[SubtaskId], now_ms: int) -> None:
        """These tasks have restarted, and have received no limit yet."""
        begun = set(tasks)
        for group in self._groups.values():
            if group.watermarks and not begun.isdisjoint(group.members):
                group.slowest = None
                group.changed(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has passed: tell the groups whose interval is over how far they may go."""
        for group in self._groups.values():
            if group.next_ms is None or now_ms < group.next_ms:
                continue
            group.next_ms = None
            if not group.watermarks:
                # Other subtasks read what had been reported of.
                continue
            slowest = min(group.watermarks.values())
            if slowest != group.slowest:
                group.slowest = slowest
                for vertex, subtask in group.members:
                    # Each by its own drift. Source: Flink, SourceCoordinator.announceCombinedWatermark.
                    limit = min(slowest + group.max_drifts_ms[vertex], MAX_TIMESTAMP)
                    self._send(vertex, subtask, AlignWatermarks(limit))

    def wake_at_ms(self) -> int | None:
        """When `tick` has something to do."""
        return earliest(*[group.next_ms for group in self._groups.values()])


def _groups_of(graph: JobGraph) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for vertex in graph.sources:
        operator = vertex.nodes[0].operator
        assert isinstance(operator, SourceOperator)
        alignment = operator.strategy.alignment
        if alignment is not None:
            group = groups.setdefault(alignment.group, _Group({}, alignment.update_interval_ms, [], {}))
            group.max_drifts_ms[vertex.id] = alignment.max_drift_ms
            # Of intervals that differ the shortest counts.
            group.update_interval_ms = min(group.update_interval_ms, alignment.update_interval_ms)
            group.members += [SubtaskId(vertex.id, subtask) for subtask in range(vertex.parallelism)]
    return groups
