"""The page of one job: its graph, and below it several parts, of which only the visible one is read."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from penstock.common.errors import PenstockError
from penstock.common.text.markup import Markup, element, joined
from penstock.common.text.quantities import as_duration
from penstock.service.dashboard.actions import Actions
from penstock.service.dashboard.charts_part import ChartsPart
from penstock.service.dashboard.endpoint import Endpoint
from penstock.service.dashboard.endpoints import Endpoints
from penstock.service.dashboard.flame_part import FlamePart
from penstock.service.dashboard.graph_drawing import drawing
from penstock.service.dashboard.job_figures import METRICS, Metrics, VertexFigures, metrics_of, vertices_of
from penstock.service.dashboard.job_parts import CheckpointsPart, ExceptionsPart, LatencyPart, Look, Part, SubtasksPart
from penstock.service.dashboard.live_markup import LiveMarkup
from penstock.service.dashboard.logs_part import LogsPart
from penstock.service.dashboard.state_part import StatePart
from penstock.service.dashboard.tables import state_of

PARTS: dict[str, type[Part]] = {
    "charts": ChartsPart,
    "subtasks": SubtasksPart,
    "flame graph": FlamePart,
    "checkpoints": CheckpointsPart,
    "latency": LatencyPart,
    "exceptions": ExceptionsPart,
    "state": StatePart,
    "logs": LogsPart,
}

_OF_ONE_VERTEX = ("subtasks", "flame graph")
_HEATS = {
    "calm": "busy below 60 %",
    "busy": "60 to 90 %",
    "hot": "above 90 %",
    "pressed": "back-pressured",
    "off": "not running",
}
_LEGEND = element("p", *(element("span", text, cls=f"legend {heat}") for heat, text in _HEATS.items()), cls="faint")


class JobPage:
    """`tab`: the part to show first. `vertex`: the one whose subtasks are shown; empty: the first."""

    def __init__(self, endpoints: Endpoints, job_id: str, tab: str, vertex: str) -> None:
        self._endpoints = endpoints
        self._job_id = job_id
        self._path = f"/jobs/{job_id}"
        self._vertex = vertex
        self._vertices: list[VertexFigures] = []
        with ui.element("div").classes("title"):
            self._title = LiveMarkup()
            with ui.element("div").classes("actions"):
                self._actions = Actions(self._endpoint, job_id, self._notify, lambda: self._vertices)
        self._lost = LiveMarkup("note")
        self._note = LiveMarkup("note")
        self._graph = LiveMarkup("part")
        self._graph.on_chosen("vertex", self._choose)
        self._tab = tab if tab in PARTS else next(iter(PARTS))
        self._parts: dict[str, Part] = {}
        with ui.tabs().props("dense no-caps align=left outside-arrows mobile-arrows") as self._tabs:
            for name in PARTS:
                ui.tab(name)
        self._tabs.set_value(self._tab)
        self._tabs.on_value_change(self._turned)
        self._boxes = {name: ui.element("div").classes("part") for name in PARTS}
        self._turn(self._tab)

    async def refresh(self) -> None:
        """Read and update what is visible. In place of a part that can't be read, show why."""
        try:
            endpoint = await self._endpoint()
            details = await endpoint.get(self._path)
            self._vertices = vertices_of(details, await self._metrics(endpoint, details))
            self._show(details)
            part = self._parts[self._tab]
            # A job without tasks has nothing else to read.
            if self._vertices or isinstance(part, LogsPart):
                await part.refresh(Look(endpoint, details, self._vertices, self._chosen()))
            self._lost.show(Markup())
        except PenstockError as error:
            # Keep what was read before: it may be all that is left of the job.
            self._lost.show(element("p", str(error), cls="bad"))

    async def _metrics(self, endpoint: Endpoint, details: dict[str, Any]) -> dict[str, Metrics]:
        if details["end-time"] >= 0:
            return {}
        ids = [vertex["id"] for vertex in details["vertices"]]
        asked = ",".join(METRICS)
        paths = [f"{self._path}/vertices/{id}/subtasks/metrics?get={asked}" for id in ids]
        answers = await asyncio.gather(*(endpoint.get(path) for path in paths))
        return {id: metrics_of(answer) for id, answer in zip(ids, answers, strict=True)}

    def _show(self, details: dict[str, Any]) -> None:
        since = f" {'after' if details['end-time'] >= 0 else 'for'} {as_duration(details['duration'])}"
        self._title.show(
            joined(element("h1", details["name"]), element("div", state_of(details["state"]), since, cls="faint"))
        )
        self._actions.allow(details["state"], details["job-type"] == "STREAMING")
        chosen = self._chosen()
        id = chosen.id if chosen is not None and self._tab in _OF_ONE_VERTEX else ""
        self._graph.show(
            joined(drawing(self._vertices, id), drawing(self._vertices, id, down=True), _LEGEND)
            if self._vertices
            else element("p", f"The job {details.get('waiting') or 'is starting'}.", cls="nothing")
        )

    def _chosen(self) -> VertexFigures | None:
        return next((one for one in self._vertices if one.id == self._vertex), next(iter(self._vertices), None))

    async def _endpoint(self) -> Endpoint:
        return await self._endpoints.of_job(self._job_id)

    def _notify(self, text: str) -> None:
        self._note.show(element("pre", text))

    def _turn(self, tab: str) -> None:
        self._tab = tab
        for name, box in self._boxes.items():
            box.set_visibility(name == tab)
        if tab not in self._parts:
            with self._boxes[tab]:
                self._parts[tab] = PARTS[tab](self._path)

    async def _turned(self, event: ValueChangeEventArguments[Any]) -> None:
        self._turn(str(event.value))
        # In the URL, so that the page can be reopened, and sent to others, in the same state.
        ui.navigate.history.replace(f"/job/{self._job_id}?{urlencode({'tab': self._tab, 'vertex': self._vertex})}")
        await self.refresh()

    async def _choose(self, vertex: str) -> None:
        self._vertex = vertex
        if self._tab in _OF_ONE_VERTEX:
            await self.refresh()
        else:
            self._tabs.set_value("subtasks")
