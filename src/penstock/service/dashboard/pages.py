"""The pages: the list of jobs, and a page for each job, with title, colors, and light or dark mode."""

from __future__ import annotations

from pathlib import Path

from nicegui import ui

from penstock.service.dashboard.endpoints import Endpoints
from penstock.service.dashboard.job_page import JobPage
from penstock.service.dashboard.live_markup import LiveMarkup
from penstock.service.dashboard.markup import element, joined
from penstock.service.dashboard.tables import clusters_table, jobs_table

_EVERY_S = 1.0
_STYLE = (Path(__file__).parent / "pages.css").read_text(encoding="utf-8")


def register_pages(endpoints: Endpoints) -> None:
    """Let NiceGUI serve the pages, for the jobs of these endpoints."""

    @ui.page("/")
    def jobs() -> None:
        _frame()
        shown = LiveMarkup("part")

        async def refresh() -> None:
            jobs = await endpoints.jobs()
            shown.show(joined(clusters_table(await endpoints.clusters()), jobs_table(jobs)))

        ui.timer(_EVERY_S, refresh)

    @ui.page("/job/{job_id}")
    def job(job_id: str, tab: str = "subtasks", vertex: str = "") -> None:
        _frame()
        page = JobPage(endpoints, job_id, tab, vertex)
        ui.timer(_EVERY_S, page.refresh)


def _frame() -> None:
    ui.add_css(_STYLE)
    ui.colors(primary="#00796b", negative="#c0392b")
    dark = ui.dark_mode(None)
    with ui.element("header"):
        ui.html(element("a", "penstock", href="/", cls="home"), sanitize=False)
        ui.space()
        light = ui.button("light", on_click=dark.disable)
        night = ui.button("dark", on_click=dark.enable)
        for button in (light, night):
            button.props("flat dense no-caps")
