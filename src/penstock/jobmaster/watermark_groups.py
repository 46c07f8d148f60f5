"""Watermark alignment, the part of the job master: how far the sources of a group may go.

Subtasks report their watermarks; every update interval the slowest of a group, plus the drift that is allowed, becomes
the limit for all of it. One that has not reported yet counts as being at the beginning of time; one that is idle or has
ended holds nobody back. Source: Flink docs, "Generating Watermarks", Watermark alignment; FLIP-182.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.plan.job_graph import JobGraph
from penstock.runtime.ids import SubtaskId
from penstock.runtime.operators.source import SourceOperator
from penstock.runtime.task.events import AlignWatermarks, ControlEvent

Send = Callable[[int, int, ControlEvent], None]


@dataclasses.dataclass
class _Group:
    max_drift_ms: int
    update_interval_ms: int
    watermarks: dict[SubtaskId, int]
    limit: int = MAX_TIMESTAMP
    """What its members know."""
    next_ms: int | None = None
    """When the limit is computed next; None: nothing was reported since the last time."""

    def changed(self, now_ms: int) -> None:
        """A member has come further."""
        if self.next_ms is None:
            self.next_ms = now_ms + self.update_interval_ms


class WatermarkGroups:
    """Of one job. `send` sends an event to a task, by vertex and subtask."""

    def __init__(self, graph: JobGraph, send: Send) -> None:
        self._send = send
        self._groups: dict[str, _Group] = {}
        for vertex in graph.sources:
            operator = vertex.nodes[0].operator
            assert isinstance(operator, SourceOperator)
            alignment = operator.strategy.alignment
            if alignment is not None:
                group = self._groups.setdefault(
                    alignment.group, _Group(alignment.max_drift_ms, alignment.update_interval_ms, {})
                )
                # Of sources that differ the strictest counts.
                group.max_drift_ms = min(group.max_drift_ms, alignment.max_drift_ms)
                group.update_interval_ms = min(group.update_interval_ms, alignment.update_interval_ms)
                for subtask in range(vertex.parallelism):
                    group.watermarks[SubtaskId(vertex.id, subtask)] = MIN_TIMESTAMP

    def reported(self, task: SubtaskId, name: str, watermark: int, now_ms: int) -> None:
        """A source has come this far (ms)."""
        group = self._groups[name]
        group.watermarks[task] = watermark
        group.changed(now_ms)

    def ended(self, task: SubtaskId, now_ms: int) -> None:
        """A task has read all its data."""
        for group in self._groups.values():
            if task in group.watermarks:
                group.watermarks[task] = MAX_TIMESTAMP
                group.changed(now_ms)

    def restarted(self, tasks: Iterable[SubtaskId]) -> None:
        """These tasks begin anew, and know no limit."""
        for task in tasks:
            for group in self._groups.values():
                if task in group.watermarks:
                    group.watermarks[task] = MIN_TIMESTAMP
                    # Said again to all: the others can tell nothing from it.
                    group.limit = MAX_TIMESTAMP

    def tick(self, now_ms: int) -> None:
        """Time has passed: tell the groups whose interval is over how far they may go."""
        for group in self._groups.values():
            if group.next_ms is None or now_ms < group.next_ms:
                continue
            group.next_ms = None
            limit = min(min(group.watermarks.values()) + group.max_drift_ms, MAX_TIMESTAMP)
            if limit != group.limit:
                group.limit = limit
                for vertex, subtask in group.watermarks:
                    self._send(vertex, subtask, AlignWatermarks(limit))

    def wake_at_ms(self) -> int | None:
        """When `tick` has something to do."""
        return min((group.next_ms for group in self._groups.values() if group.next_ms is not None), default=None)
