"""The web application of a cluster: the paths that it serves itself, and those that it forwards to jobs' processes."""

from __future__ import annotations

from starlette.applications import Starlette

from penstock.service.dispatcher import job_paths, metric_paths, program_paths, submission_paths, worker_paths
from penstock.service.dispatcher.host import DispatcherHost
from penstock.service.dispatcher.programs import Programs
from penstock.service.rest import open_api, own_page
from penstock.service.rest.application import ROUTES, guarded
from penstock.service.rest.described_route import DescribedRoute
from penstock.service.rest.token_server import TokenServer

_PASSED_ON = [
    route
    for route in ROUTES
    if isinstance(route, DescribedRoute) and route.path.startswith(("/jobs/{jobid}", "/taskmanagers/{taskmanagerid}"))
]
"""Paths that the jobs' processes answer, for OpenAPI. Last, so that the forwarding routes match first."""
# The first matching route wins: /jobs/metrics must come before /jobs/:jobid.
_ROUTES = [
    *submission_paths.routes,
    *program_paths.routes,
    *metric_paths.routes,
    *job_paths.routes,
    *worker_paths.routes,
    *open_api.routes,
    *own_page.page_routes(job_paths.overviews),
    *_PASSED_ON,
]


def application(host: DispatcherHost, server: TokenServer, spark: dict[str, str]) -> Starlette:
    """Return the application of one cluster. `spark`: settings of its Spark application."""
    app = guarded(_ROUTES, server.token, server.cookie)
    app.state.dispatcher, app.state.spark = host, spark
    app.state.programs, app.state.address = Programs(host.store.directory / "programs"), server.address
    app.state.token = server.token
    return app
