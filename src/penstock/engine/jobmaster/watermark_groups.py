"""Align watermarks: limit how far the sources of a group may advance.

Subtasks report their watermarks. In each update interval, the lowest watermark of a group plus the allowed drift
becomes the limit for the group. A subtask that has no watermark yet, is idle or has ended does not limit the group.
After a restart the last report of a subtask counts until its next one. Source: Flink docs, "Generating Watermarks",
Watermark alignment; FLIP-182; SourceCoordinator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.time.earliest import earliest
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import AlignWatermarks, ControlEvent

Send = Callable[[int, int, ControlEvent], None]


@dataclasses.dataclass
class _Group:
    max_drifts_ms: dict[int, int]
    """Allowed drift of each source, by its vertex."""
    update_interval_ms: int
    members: list[SubtaskId]
    watermarks: dict[SubtaskId, int]
    """Watermarks of the members that have reported."""
    slowest: int | None = MAX_TIMESTAMP
    """The watermark behind the limits that members have received; None if some have received no limit."""
    next_ms: int | None = None
    """When the limit is computed next; None if no watermark was reported since the last time."""

    def changed(self, now_ms: int) -> None:
        """Schedule the next computation: the watermark of a member has changed."""
        if self.next_ms is None:
            self.next_ms = now_ms + self.update_interval_ms


class WatermarkGroups:
    """The groups of one job. `send` sends an event to a task, by vertex and subtask."""

    def __init__(self, graph: JobGraph, send: Send) -> None:
        self._send = send
        self._groups = _groups_of(graph)

    def rescaled(self, graph: JobGraph) -> None:
        """Use the plan of the present attempts. Forget the watermarks of sources whose parallelism has changed."""
        for name, group in _groups_of(graph).items():
            known = self._groups[name]
            changed = {task.vertex for task in {*group.members} ^ {*known.members}}
            known.members = group.members
            known.watermarks = {task: at for task, at in known.watermarks.items() if task.vertex not in changed}

    def reported(self, task: SubtaskId, name: str, watermark: int, now_ms: int) -> None:
        """Record the watermark of a source's subtask (ms)."""
        group = self._groups[name]
        group.watermarks[task] = watermark
        group.changed(now_ms)

    def ended(self, task: SubtaskId, now_ms: int) -> None:
        """Record that a task has read all its data, so that it does not limit its group."""
        for group in self._groups.values():
            if task in group.members:
                group.watermarks[task] = MAX_TIMESTAMP
                group.changed(now_ms)

    def restarted(self, tasks: Iterable[SubtaskId], now_ms: int) -> None:
        """Schedule new limits for groups of restarted tasks, which have received no limit yet."""
        begun = set(tasks)
        for group in self._groups.values():
            if group.watermarks and not begun.isdisjoint(group.members):
                group.slowest = None
                group.changed(now_ms)

    def tick(self, now_ms: int) -> None:
        """Send new limits to the groups whose interval has passed."""
        for group in self._groups.values():
            if group.next_ms is None or now_ms < group.next_ms:
                continue
            group.next_ms = None
            if not group.watermarks:
                # A rescale has removed the subtasks that had reported.
                continue
            slowest = min(group.watermarks.values())
            if slowest != group.slowest:
                group.slowest = slowest
                for vertex, subtask in group.members:
                    # Each source has its own drift. Source: Flink, SourceCoordinator.announceCombinedWatermark.
                    limit = min(slowest + group.max_drifts_ms[vertex], MAX_TIMESTAMP)
                    self._send(vertex, subtask, AlignWatermarks(limit))

    def wake_at_ms(self) -> int | None:
        """Return when the next `tick` is due, or None."""
        return earliest(*[group.next_ms for group in self._groups.values()])


def _groups_of(graph: JobGraph) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for vertex in graph.sources:
        strategy = vertex.nodes[0].operator.strategy
        alignment = None if strategy is None else strategy.alignment
        if alignment is not None:
            group = groups.setdefault(alignment.group, _Group({}, alignment.update_interval_ms, [], {}))
            group.max_drifts_ms[vertex.id] = alignment.max_drift_ms
            # If the intervals of a group differ, the shortest counts.
            group.update_interval_ms = min(group.update_interval_ms, alignment.update_interval_ms)
            group.members += [SubtaskId(vertex.id, subtask) for subtask in range(vertex.parallelism)]
    return groups
