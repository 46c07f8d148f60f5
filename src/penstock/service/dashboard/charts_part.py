"""The charts of a job over time."""

from __future__ import annotations

from nicegui import ui

from penstock.common.errors import PenstockError
from penstock.common.text.markup import element
from penstock.service.dashboard.charts import job_charts
from penstock.service.dashboard.job_parts import Look, Part
from penstock.service.dashboard.live_markup import LiveMarkup

_READ_EVERY_S = 2.0
_RANGES = {"recent": "last ten minutes", "all": "since the job's start"}


class ChartsPart(Part):
    """Records per second, event time, load and checkpoints, of the last minutes or of the whole time."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._range = ui.toggle(_RANGES, value="recent").props(
            "dense no-caps unelevated toggle-text-color=on-primary padding='2px 12px'"
        )
        self._shown = LiveMarkup()

    async def refresh(self, look: Look) -> None:
        """Read the samples."""
        # Of a job that has ended, the last ten minutes are rarely of interest, and its archive has the whole time only.
        wanted = self._range.value if look.details["end-time"] < 0 else "all"
        self._range.set_visibility(look.details["end-time"] < 0)
        try:
            history = await look.endpoint.get(f"{self.path}/history?range={wanted}", _READ_EVERY_S)
        except PenstockError:
            # A job of an older version has no history, and neither has one that ended before it answered requests.
            self._shown.show(element("p", "There are no figures over time of this job.", cls="nothing"))
            return
        if len(history["samples"]) < 2:
            ended = look.details["end-time"] >= 0
            text = "The job has ended too soon for charts." if ended else "Charts appear after a few seconds."
            self._shown.show(element("p", text, cls="nothing"))
            return
        self._shown.show(job_charts(history, {vertex.id: vertex.name for vertex in look.vertices}))
