"""The newest lines of a log: the driver's, Spark's, or a worker's."""

from __future__ import annotations

import re
import time
from urllib.parse import quote

from nicegui import ui

from penstock.common.errors import PenstockError
from penstock.common.text.markup import element, joined
from penstock.service.dashboard.endpoint import Endpoint
from penstock.service.dashboard.job_parts import Look, Part
from penstock.service.dashboard.live_markup import LiveMarkup

_MARK = 8
_OF_A_JOB = re.compile(rf"[0-9a-f]{{{_MARK}}}-")
_LIST_EVERY_S = 10.0
_READ_EVERY_S = 2.0
_SHOWN_MAX = 300
"""Most lines shown."""
_READ_MAX = 1 << 18
"""Bytes read from the end: a log may have many megabytes, and grows while it is read."""


class LogsPart(Part):
    """Shows one file at a time."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with ui.element("div").classes("form"):
            self._file = ui.select({}, label="log").classes("wide")
            self._holding = ui.input("only lines that contain").classes("wide")
        self._shown = LiveMarkup("log")
        self._text = ""
        self._read = ("", 0.0)
        """The file, and when it was read (s)."""

    async def refresh(self, look: Look) -> None:
        """Read the list of logs, and the chosen one."""
        files = await logs_of(look.endpoint, look.details["jid"])
        if files != self._file.options:
            value = self._file.value if self._file.value in files else next(iter(files), None)
            self._file.set_options(files, value=value)
        path, now_s = str(self._file.value), time.monotonic()
        if path in files and (path != self._read[0] or now_s - self._read[1] >= _READ_EVERY_S):
            try:
                self._text = await look.endpoint.text(f"{path}?last={_READ_MAX}")
            except PenstockError as error:
                self._text = str(error)
            self._read = (path, now_s)
        lines, left_out = newest_lines(self._text, self._holding.value or "", _SHOWN_MAX)
        note = element("p", f"{left_out:,} older lines are not shown.", cls="faint") if left_out else None
        self._shown.show(joined(note, element("div", element("pre", "\n".join(lines) or "No lines yet."), cls="tail")))


async def logs_of(endpoint: Endpoint, job_id: str) -> dict[str, str]:
    """Return names by path: the job's own first, as the most useful ones, then those of its cluster and workers."""
    listed = [str(one["name"]) for one in (await endpoint.get("/jobmanager/logs", _LIST_EVERY_S))["logs"]]
    # In a cluster, names start with the beginning of a job's id.
    own = [name for name in listed if name.startswith(f"{job_id[:_MARK]}-")]
    others = [name for name in listed if not _OF_A_JOB.match(name)]
    found = {f"/jobmanager/logs/{quote(name)}": _OF_A_JOB.sub("", name) for name in [*own, *others]}
    for worker in (await endpoint.get("/taskmanagers", _LIST_EVERY_S))["taskmanagers"]:
        job, is_of_cluster, _ = worker["id"].partition("-level-")
        if is_of_cluster and not job_id.startswith(job):
            continue
        path = f"/taskmanagers/{quote(worker['id'])}/logs"
        listed = (await endpoint.get(path, _LIST_EVERY_S))["logs"]
        found |= {f"{path}/{quote(one['name'])}": str(one["name"]) for one in listed}
    return found


def newest_lines(text: str, holding: str, most: int) -> tuple[list[str], int]:
    """Return the last lines that contain a text, and the number of older ones."""
    lines = [line for line in text.splitlines() if holding in line]
    return lines[-most:], max(0, len(lines) - most)
