"""Buttons for what a user can request of a job from its page: each asks for confirmation before it acts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from penstock.common.errors import PenstockError
from penstock.service.dashboard.endpoint import Endpoint
from penstock.service.dashboard.job_figures import VertexFigures

_OUTCOME_EVERY_S = 0.25


class Actions:
    """The buttons of one job. `notify`: shows a sentence about the outcome. `vertices`: the job's current ones."""

    def __init__(
        self,
        endpoint: Callable[[], Awaitable[Endpoint]],
        job_id: str,
        notify: Callable[[str], object],
        vertices: Callable[[], list[VertexFigures]],
    ) -> None:
        self._endpoint = endpoint
        self._path = f"/jobs/{job_id}"
        self._notify = notify
        self._vertices = vertices
        self._buttons = {
            "Savepoint": ui.button("Savepoint", on_click=self._savepoint),
            "Rescale": ui.button("Rescale", on_click=self._rescale),
            "Stop": ui.button("Stop", on_click=self._stop),
            "Cancel": ui.button("Cancel", on_click=self._cancel),
        }
        for button in self._buttons.values():
            button.props("outline dense no-caps padding='2px 12px'")
            # Hidden until it is known what the job accepts.
            button.set_visibility(False)

    def allow(self, state: str, is_streaming: bool) -> None:
        """Show the buttons for what a job in this state accepts."""
        running = state == "RUNNING"
        ended = state in ("FINISHED", "FAILED", "CANCELED")
        self._buttons["Cancel"].set_visibility(not ended)
        for name in ("Savepoint", "Rescale", "Stop"):
            self._buttons[name].set_visibility(running and is_streaming)

    async def _savepoint(self) -> None:
        directory = await _asked("Take a savepoint? The job keeps running.", "Take savepoint", with_directory=True)
        if directory is not None:
            await self._act(self._trigger("savepoints", {"target-directory": directory or None}))

    async def _stop(self) -> None:
        question = "Stop the job with a savepoint? Its output up to the savepoint is committed."
        directory = await _asked(question, "Stop job", with_directory=True)
        if directory is not None:
            await self._act(self._trigger("stop", {"targetDirectory": directory or None}))

    async def _cancel(self) -> None:
        if await _asked("Cancel the job? Uncommitted output is lost.", "Cancel job") is not None:
            await self._act(self._cancelled())

    async def _rescale(self) -> None:
        wanted = await _parallelism(self._vertices())
        if wanted:
            await self._act(self._rescaled(wanted))

    async def _act(self, action: Awaitable[str]) -> None:
        self._notify("…")
        try:
            self._notify(await action)
        except PenstockError as error:
            self._notify(str(error))

    async def _trigger(self, verb: str, body: dict[str, Any]) -> str:
        endpoint = await self._endpoint()
        trigger = (await endpoint.request("POST", f"{self._path}/{verb}", body))["request-id"]
        while True:
            outcome = await endpoint.get(f"{self._path}/savepoints/{trigger}", fresh_s=0.0)
            if outcome["status"]["id"] == "COMPLETED":
                return outcome_of(outcome["operation"])
            await asyncio.sleep(_OUTCOME_EVERY_S)

    async def _cancelled(self) -> str:
        await (await self._endpoint()).request("PATCH", f"{self._path}?mode=cancel")
        return "The job is being canceled."

    async def _rescaled(self, wanted: dict[str, int]) -> str:
        body = {id: {"parallelism": {"lowerBound": 1, "upperBound": count}} for id, count in wanted.items()}
        await (await self._endpoint()).request("PUT", f"{self._path}/resource-requirements", body)
        return "Rescaling: the job takes a checkpoint and resumes with other subtasks. If that fails, its log says why."


def outcome_of(operation: dict[str, Any]) -> str:
    """Return the outcome of a savepoint, as a sentence."""
    failure = operation.get("failure-cause")
    return str(failure["stack-trace"]) if failure else f"Savepoint: {operation['location']}"


async def _asked(question: str, yes: str, with_directory: bool = False) -> str | None:
    """Return the entered directory, or an empty text; None: the user declined."""
    with ui.dialog() as dialog, ui.card().classes("ask"):
        ui.label(question)
        where = ui.input("directory (default: the configured one)").classes("wide") if with_directory else None
        with ui.row().classes("answers"):
            ui.button("No", on_click=lambda: dialog.submit(False)).props("flat no-caps")
            ui.button(yes, on_click=lambda: dialog.submit(True)).props("unelevated no-caps text-color=on-primary")
    confirmed = await dialog
    dialog.delete()
    return (where.value.strip() if where is not None else "") if confirmed else None


async def _parallelism(vertices: list[VertexFigures]) -> dict[str, int]:
    """Return what the user changed, by vertex."""
    with ui.dialog() as dialog, ui.card().classes("ask"):
        ui.label("Change the number of subtasks? The job takes a checkpoint, and pauses for a moment.")
        counts = {
            one.id: ui.number(
                one.name, value=one.parallelism, min=1, max=one.max_parallelism, precision=0, step=1
            ).classes("wide")
            for one in vertices
        }
        with ui.row().classes("answers"):
            ui.button("No", on_click=lambda: dialog.submit(False)).props("flat no-caps")
            ui.button("Rescale job", on_click=lambda: dialog.submit(True)).props(
                "unelevated no-caps text-color=on-primary"
            )
    confirmed = await dialog
    dialog.delete()
    if not confirmed:
        return {}
    given = {one.id: counts[one.id].value for one in vertices}
    return {one.id: int(given[one.id]) for one in vertices if given[one.id] and int(given[one.id]) != one.parallelism}
