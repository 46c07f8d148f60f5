"""Markup on a page that is updated every second, and sent to the browser only when it has changed."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui
from nicegui.events import GenericEventArguments

from penstock.common.text.markup import Markup


class LiveMarkup:
    """A part of a page. `cls`: its class."""

    def __init__(self, cls: str = "") -> None:
        # Not sanitized again: `element` has escaped everything that comes from a job, and sanitizing would remove its
        # drawings.
        self._html = ui.html(sanitize=False).classes(cls)
        self._shown = ""

    def show(self, markup: Markup) -> None:
        """Update it, if it has changed."""
        if markup != self._shown:
            self._shown = markup
            self._html.set_content(markup)

    def on_chosen(self, attribute: str, call: Callable[[str], object]) -> None:
        """Call with the value of `data-ATTRIBUTE` of the clicked element, or of the one chosen with the Enter key."""

        def chosen(event: GenericEventArguments) -> object:
            # NiceGUI awaits the result if it is awaitable.
            return call(str(event.args))

        find = (
            f"(event) => {{ const found = event.target.closest('[data-{attribute}]');"
            f" if (found) {{ event.preventDefault(); emit(found.dataset.{attribute}); }} }}"
        )
        for kind in ("click", "keydown.enter"):
            self._html.on(kind, chosen, js_handler=find)
