"""The parts of a job's page below its graph, each read only while it is visible."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, cast

from penstock.common.text.markup import Markup, element, joined
from penstock.common.text.quantities import as_size
from penstock.service.dashboard.charts import CheckpointPhases, as_short_duration, checkpoints_chart, phases_of
from penstock.service.dashboard.endpoint import Endpoint
from penstock.service.dashboard.job_figures import VertexFigures, subtask_metric_names, subtasks_of
from penstock.service.dashboard.live_markup import LiveMarkup
from penstock.service.dashboard.tables import (
    checkpoint_subtasks_table,
    checkpoints_table,
    failures_of,
    latency_table,
    subtasks_table,
)

_SUBTASKS_AT_ONCE = 40
"""Most subtasks shown: a request names their metrics one by one, and servers limit its length."""
_CHARTED_MAX = 40
_FOR_EVER_S = 1e9


@dataclass(frozen=True)
class Look:
    """The data that the page has already read. `details`: of the job; `chosen`: the selected vertex."""

    endpoint: Endpoint
    details: dict[str, Any]
    vertices: list[VertexFigures]
    chosen: VertexFigures | None


class Part(ABC):
    """`path`: the job's. Created where its elements belong on the page."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    async def refresh(self, look: Look) -> None:
        """Read and update the part. Raises JobError."""


class MarkupPart(Part):
    """A part that consists of markup only."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._shown = LiveMarkup()


class SubtasksPart(MarkupPart):
    """The subtasks of the vertex chosen in the graph."""

    async def refresh(self, look: Look) -> None:
        """Read its subtasks and their metrics."""
        endpoint, chosen = look.endpoint, look.chosen
        if chosen is None:
            return
        path = f"{self.path}/vertices/{chosen.id}"
        starts = range(0, chosen.parallelism, _SUBTASKS_AT_ONCE)
        names = [
            ",".join(subtask_metric_names(start, min(start + _SUBTASKS_AT_ONCE, chosen.parallelism)))
            for start in starts
        ]
        vertex, *values = await asyncio.gather(
            endpoint.get(path), *(endpoint.get(f"{path}/metrics?get={some}") for some in names)
        )
        subtasks = subtasks_of(vertex, [value for some in values for value in some])
        count = f"{chosen.parallelism} subtask{'s'[: chosen.parallelism != 1]}"
        facts = f"{count} of {chosen.max_parallelism} at most · skew {chosen.skew:.0f} %"
        heading = element("h2", chosen.name, element("small", facts))
        hint = (
            element("p", "Click a box of the graph to show its subtasks here.", cls="faint")
            if len(look.vertices) > 1
            else None
        )
        self._shown.show(joined(heading, subtasks_table(subtasks), *descriptions_of(vertex), hint))


def descriptions_of(vertex: dict[str, Any]) -> list[Markup]:
    """Show what operators of `/jobs/:id/vertices/:id` say of themselves: a pattern, its picture; their own metrics."""
    return [
        element(
            "div",
            element("h3", one["name"]),
            element("pre", one["description"]) if one["description"] else None,
            element("p", " · ".join(f"{name} {value:,}" for name, value in metrics.items())) if metrics else None,
            cls="description",
        )
        for one in vertex.get("operators", ())
        if (metrics := one.get("metrics")) or one["description"]
    ]


class CheckpointsPart(Part):
    """Figures of checkpoints as a chart; their history; one of them by subtask."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._counts = LiveMarkup()
        self._chart = LiveMarkup()
        self._chart.on_chosen("checkpoint", self._choose)
        self._history = LiveMarkup()
        self._history.on_chosen("checkpoint", self._choose)
        self._details = LiveMarkup()
        self._chosen = 0
        self._look: Look | None = None
        self._phases: OrderedDict[int, CheckpointPhases] = OrderedDict()

    async def refresh(self, look: Look) -> None:
        """Read the history, and the details of new checkpoints."""
        self._look = look
        endpoint, vertices = look.endpoint, look.vertices
        found = await endpoint.get(f"{self.path}/checkpoints")
        history = found["history"]
        self._counts.show(element("p", *_counted(found), cls="faint"))
        self._history.show(checkpoints_table(history))
        completed = [one for one in history if one["status"] == "COMPLETED"][:_CHARTED_MAX]
        new = [one for one in completed if one["id"] not in self._phases]
        for one in reversed(new):
            self._phases[one["id"]] = phases_of(one, [parts for _, parts in await self._parts(endpoint, one, vertices)])
        while len(self._phases) > _CHARTED_MAX:
            self._phases.popitem(last=False)
        looked_at = next((one for one in completed if one["id"] == self._chosen), next(iter(completed), None))
        if looked_at is not None:
            self._chart.show(checkpoints_chart(list(self._phases.values()), looked_at["id"]))
            heading = element("h2", f"Checkpoint {looked_at['id']}", element("small", "by subtask"))
            parts = await self._parts(endpoint, looked_at, vertices)
            self._details.show(joined(heading, checkpoint_subtasks_table(parts)))

    async def _parts(
        self, endpoint: Endpoint, checkpoint: dict[str, Any], vertices: list[VertexFigures]
    ) -> list[tuple[str, dict[str, Any]]]:
        """Return the details of each vertex. Cached for a complete checkpoint, which no longer changes."""
        path = f"{self.path}/checkpoints/details/{checkpoint['id']}/subtasks"
        answers = await asyncio.gather(
            *(endpoint.get(f"{path}/{vertex.id}", _FOR_EVER_S) for vertex in vertices), return_exceptions=True
        )
        # A vertex that had ended by then has no details.
        found = zip(vertices, answers, strict=True)
        return [
            (vertex.name, cast(dict[str, Any], answer))
            for vertex, answer in found
            if not isinstance(answer, BaseException)
        ]

    async def _choose(self, checkpoint: str) -> None:
        self._chosen = int(checkpoint)
        if self._look is not None:
            await self.refresh(self._look)


def _counted(found: dict[str, Any]) -> list[str]:
    counts, summary = found["counts"], found["summary"]
    text = f"{counts['completed']:,} completed, {counts['failed']:,} failed, {counts['in_progress']} under way"
    if not counts["completed"]:
        return [text]
    duration, size = summary["end_to_end_duration"], summary["state_size"]
    return [text, f" · {as_short_duration(duration['avg'])} and {as_size(size['avg'])} on average"]


class LatencyPart(MarkupPart):
    """Latencies that latency markers have measured."""

    async def refresh(self, look: Look) -> None:
        """Nothing to read beyond what the graph has."""
        self._shown.show(latency_table(look.vertices))


class ExceptionsPart(MarkupPart):
    """Failures of the job, and why it was restarted."""

    async def refresh(self, look: Look) -> None:
        """Read the newest failures."""
        self._shown.show(failures_of((await look.endpoint.get(f"{self.path}/exceptions"))["exceptionHistory"]))
