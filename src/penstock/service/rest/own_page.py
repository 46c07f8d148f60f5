"""The page at /: the jobs of this endpoint, with links to the dashboard. Without one: how to get it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from penstock.common.doors import extras
from penstock.common.text.markup import Markup, element, joined, table
from penstock.common.text.quantities import as_duration
from penstock.service.cluster.running_dashboard import dashboard_urls
from penstock.service.rest.answers import jobs_of
from penstock.service.rest.described_route import DescribedRoute
from penstock.service.rest.job_paths import job_overview

_STYLE = Path(__file__).parent / "page" / "page.css"
_REFRESH_EVERY_S = 5
_SHOWS = "the graph, charts, checkpoints, exceptions, state and logs of each job"

Overviews = Callable[[Request], Awaitable[Sequence[dict[str, Any]]]]
"""Returns the jobs, as in `/jobs/overview`."""


def page_routes(overviews: Overviews) -> list[DescribedRoute]:
    """Return the routes of the page about these jobs, and of its style."""

    async def page(request: Request) -> Response:
        """GET /: a page with the jobs, and links to the dashboard."""
        jobs = sorted(await overviews(request), key=lambda job: (job["end-time"] >= 0, -job["start-time"]))
        return HTMLResponse(_document(jobs, next(iter(dashboard_urls()), None)))

    async def style(request: Request) -> Response:
        """GET /page.css: the style of the pages."""
        return FileResponse(_STYLE, media_type="text/css")

    return [
        DescribedRoute("/", page, media_type="text/html"),
        DescribedRoute("/page.css", style, media_type="text/css"),
    ]


async def _of_process(request: Request) -> Sequence[dict[str, Any]]:
    return [job_overview(entry) for entry in jobs_of(request).all()]


def _document(jobs: Sequence[dict[str, Any]], dashboard: str | None) -> str:
    """Return the page. `dashboard`: the address of a dashboard that runs."""
    head = joined(
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        # The page has no script.
        Markup(f'<meta http-equiv="refresh" content="{_REFRESH_EVERY_S}">'),
        element("title", "penstock"),
        Markup('<link rel="icon" href="data:,"><link rel="stylesheet" href="page.css">'),
    )
    parts = (element("h1", "penstock"), _jobs(jobs, dashboard), _dashboard(dashboard), _others())
    main = element("main", *parts)
    return f'<!doctype html>\n<html lang="en">{head}{main}</html>\n'


def _jobs(jobs: Sequence[dict[str, Any]], dashboard: str | None) -> Markup:
    if not jobs:
        return element("p", "No job runs yet.")
    rows = [
        [
            job["name"] if dashboard is None else element("a", job["name"], href=f"{dashboard}/job/{job['jid']}"),
            element("span", job["state"].lower(), cls=job["state"].lower()),
            as_duration(job["duration"]),
            element("code", job["jid"]),
        ]
        for job in jobs
    ]
    return table(["job", "state", "for", "id"], rows)


def _dashboard(dashboard: str | None) -> Markup:
    if dashboard is not None:
        return element("p", "The ", element("a", "dashboard", href=dashboard), f" shows {_SHOWS}.")
    install = f"pip install '{extras.DASHBOARD}'\n" if find_spec("nicegui") is None else ""
    return joined(
        element("p", f"The dashboard shows {_SHOWS}. Start it in a terminal; it finds these jobs:"),
        element("pre", f"{install}penstock dashboard"),
    )


def _others() -> Markup:
    in_terminal = joined("In a terminal: ", element("code", "penstock top"), ". ")
    rest, metrics = element("a", "REST", href="docs"), element("a", "metrics", href="metrics")
    return element("p", in_terminal, joined("For programs: ", rest, ", ", metrics))


routes = page_routes(_of_process)
