"""The state browser: keyed state by operator, name and key, committed or live."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from penstock.common.errors import PenstockError
from penstock.common.text.markup import element, joined
from penstock.common.text.quantities import as_moment
from penstock.service.dashboard.endpoint import Endpoint
from penstock.service.dashboard.job_parts import Look, Part
from penstock.service.dashboard.live_markup import LiveMarkup
from penstock.service.dashboard.tables import entries_table

_LIST_EVERY_S = 5.0
_LIMIT = 100


class StatePart(Part):
    """Reads entries only when the user asks for them, since reading may be expensive."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._endpoint: Endpoint | None = None
        with ui.element("div").classes("form"):
            self._state = ui.select({}, label="operator · state").classes("wide")
            self._keys = ui.input("keys (default: the first entries)").classes("wide")
            self._live = ui.checkbox("live, not committed")
            ui.button("Show", on_click=self._ask).props(
                "unelevated dense no-caps text-color=on-primary padding='2px 16px'"
            )
        self._keys.on("keydown.enter", self._ask)
        self._shown = LiveMarkup()

    async def refresh(self, look: Look) -> None:
        """Read the list of states."""
        self._endpoint = look.endpoint
        try:
            found = await look.endpoint.get(f"{self.path}/state", _LIST_EVERY_S)
        except PenstockError as error:
            # Before the first checkpoint the list is empty.
            if not self._state.options:
                self._shown.show(element("p", str(error), cls="nothing"))
            return
        options = {f"{one['operator']}\0{one['state']}": label_of(one) for one in found["states"]}
        if not options:
            self._shown.show(
                element("p", "The newest checkpoint has no keyed state that can be queried.", cls="nothing")
            )
        elif options != self._state.options:
            first = next(iter(options), None)
            self._state.set_options(options, value=self._state.value if self._state.value in options else first)
            self._shown.show(element("p", "Choose a state, then Show.", cls="nothing"))

    async def _ask(self) -> None:
        if self._endpoint is None or not self._state.value:
            return
        operator, _, state = str(self._state.value).partition("\0")
        asked = query_of(operator, state, self._keys.value or "", bool(self._live.value))
        try:
            answer = await self._endpoint.get(f"{self.path}/state/entries?{asked}", fresh_s=0.0)
        except PenstockError as error:
            self._shown.show(element("p", str(error), cls="bad"))
            return
        self._shown.show(joined(element("p", source_of(answer), cls="faint"), entries_table(answer)))


def label_of(state: dict[str, Any]) -> str:
    """Return the label of a state of `/jobs/:id/state` in the list."""
    names = "".join(f", queryable as '{name}'" for name in state["queryable-names"])
    return f"{state['operator-name']} · {state['state']}: {state['type']}{names}"


def keys_in(text: str) -> list[str]:
    """Return the entered keys: the whole as one if it is a literal or in quotes, else one for each word."""
    text = text.strip()
    return [text] if text[:1] in ("(", "'", '"', "b") and text[-1:] in (")", "'", '"') else text.split()


def query_of(operator: str, state: str, keys: str, live: bool) -> str:
    """Return the parameters for `/jobs/:id/state/entries`."""
    given = [("operator", operator), ("state", state), ("limit", str(_LIMIT))]
    if live:
        given.append(("isolation", "read-uncommitted"))
    return urlencode([*given, *(("key", key) for key in keys_in(keys))])


def source_of(answer: dict[str, Any]) -> str:
    """Return the moment of which the entries are."""
    if answer.get("checkpoint-id") is None:
        return "live: a failure may roll this back"
    return f"of checkpoint {answer['checkpoint-id']}, {as_moment(answer['completed'])}"
