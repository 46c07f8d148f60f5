"""The pages: the list of jobs, and a page for each job, with title, colors, and light or dark mode."""

from __future__ import annotations

from pathlib import Path

from nicegui import ui

from penstock.common.text.markup import element, joined
from penstock.service.dashboard.endpoints import Endpoints
from penstock.service.dashboard.job_page import JobPage
from penstock.service.dashboard.live_markup import LiveMarkup
from penstock.service.dashboard.tables import clusters_table, jobs_table

_EVERY_S = 1.0
_MODE_COOKIE = "penstock-mode"
_MODE_KEPT = f"path=/; max-age={365 * 24 * 3600}; samesite=strict"
"""The user's choice of light or dark is a cookie: it holds for all ports of a host, and a page starts with it."""
_IS_DARK = {"light": False, "dark": True}
STYLE = (Path(__file__).parent / "pages.css").read_text(encoding="utf-8")
"""The rules of all pages."""


def register_pages(endpoints: Endpoints) -> None:
    """Let NiceGUI serve the pages, for the jobs of these endpoints."""

    @ui.page("/")
    def jobs() -> None:
        _frame()
        shown = LiveMarkup("part")

        async def refresh() -> None:
            jobs = await endpoints.with_figures(await endpoints.jobs())
            shown.show(joined(clusters_table(await endpoints.clusters()), jobs_table(jobs)))

        ui.timer(_EVERY_S, refresh)

    @ui.page("/job/{job_id}")
    def job(job_id: str, tab: str = "", vertex: str = "") -> None:
        _frame()
        page = JobPage(endpoints, job_id, tab, vertex)
        ui.timer(_EVERY_S, page.refresh)


def _frame() -> None:
    ui.add_css(STYLE)
    request = ui.context.client.request
    # Without a choice the pages follow the system.
    dark = ui.dark_mode(_IS_DARK.get(request.cookies.get(_MODE_COOKIE, "")))
    with ui.element("header"):
        ui.html(element("a", "penstock", href="/", cls="home"), sanitize=False)
        ui.space()
        light = ui.button("light", on_click=dark.disable)
        night = ui.button("dark", on_click=dark.enable)
        for button, mode in ((light, "light"), (night, "dark")):
            button.props("flat dense no-caps")
            button.on("click", js_handler=f"() => {{ document.cookie = '{_MODE_COOKIE}={mode}; {_MODE_KEPT}' }}")
