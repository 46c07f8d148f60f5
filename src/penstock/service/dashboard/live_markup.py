"""Markup on a page that is written again each second: sent to the browser only if it has changed."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui
from nicegui.events import GenericEventArguments

from penstock.service.dashboard.markup import Markup


class LiveMarkup:
    """A part of a page. `cls`: its class."""

    def __init__(self, cls: str = "") -> None:
        # It is made by `element`, which leaves nothing of a job's as markup; to clean it again would take its drawings.
        self._html = ui.html(sanitize=False).classes(cls)
        self._shown = ""

    def show(self, markup: Markup) -> None:
        """Write it, if it is not what is there."""
        if markup != self._shown:
            self._shown = markup
            self._html.set_content(markup)

    def on_chosen(self, attribute: str, call: Callable[[str], object]) -> None:
        """Call with the value of `data-ATTRIBUTE` of what is clicked, or chosen by the Enter key."""

        def chosen(event: GenericEventArguments) -> object:
            # NiceGUI waits for it, if it is to be waited for.
            return call(str(event.args))

        find = (
            f"(event) => {{ const found = event.target.closest('[data-{attribute}]');"
            f" if (found) {{ event.preventDefault(); emit(found.dataset.{attribute}); }} }}"
        )
        for kind in ("click", "keydown.enter"):
            self._html.on(kind, chosen, js_handler=find)
