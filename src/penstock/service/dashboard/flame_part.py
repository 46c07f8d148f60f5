"""The flame graph of a vertex: where its tasks spend their time."""

from __future__ import annotations

from nicegui import ui

from penstock.common.text.markup import element, joined
from penstock.common.text.quantities import as_moment
from penstock.service.dashboard.flame_drawing import flames, legend
from penstock.service.dashboard.job_parts import Look, Part
from penstock.service.dashboard.live_markup import LiveMarkup

_WHY_NONE = {
    -1: "Its tasks do not run.",
    -2: "This job takes no samples. Start it in STREAMING mode with penstock run -D rest.flamegraph.enabled=true.",
    -3: "Taking samples, for some seconds …",
}
"""Texts by the code in place of the time of a flame graph."""
_KINDS = {"FULL": "all samples", "ON_CPU": "on CPU: it computes", "OFF_CPU": "off CPU: it waits"}


class FlamePart(Part):
    """The flame graph of the vertex chosen in the graph. A click on a frame shows it at full width."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with ui.element("div").classes("form"):
            self._kind = ui.select(_KINDS, value="FULL", label="samples").classes("wide")
        self._shown = LiveMarkup()
        self._shown.on_chosen("frame", self._choose)
        self._frame = ""
        self._look: Look | None = None

    async def refresh(self, look: Look) -> None:
        """Read the newest samples, which triggers new ones if they are old."""
        self._look = look
        if look.chosen is None:
            return
        asked = f"{self.path}/vertices/{look.chosen.id}/flamegraph?type={self._kind.value}"
        found = await look.endpoint.get(asked)
        tree, taken_ms = found["data"], found["endTimestamp"]
        if tree is None:
            self._shown.show(element("p", _WHY_NONE.get(taken_ms, "No flame graph."), cls="nothing"))
            return
        heading = element("h2", look.chosen.name, element("small", f"samples of {as_moment(taken_ms)}"))
        self._shown.show(joined(heading, flames(tree, self._frame), element("p", legend(), cls="faint")))

    async def _choose(self, frame: str) -> None:
        self._frame = frame
        if self._look is not None:
            await self.refresh(self._look)
