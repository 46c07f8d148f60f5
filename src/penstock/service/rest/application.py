"""The web application: all paths, the guard around them, and the form of errors."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from penstock.service.rest import (
    accumulator_paths,
    autoscaler_paths,
    checkpoint_paths,
    checkpoint_triggers,
    cluster_paths,
    execution_result_paths,
    flame_graph_paths,
    history_paths,
    job_paths,
    log_paths,
    metric_paths,
    open_api,
    operation_paths,
    own_page,
    prometheus,
    rescaling_paths,
    state_paths,
    trigger_outcomes,
    vertex_paths,
)
from penstock.service.rest.answers import error_answer
from penstock.service.rest.guard import OWN_POLICY, Guard
from penstock.service.rest.served_jobs import ServedJobs

_log = logging.getLogger(__name__)
# The first matching route wins: /jobs/metrics must come before /jobs/:jobid.
ROUTES: Sequence[BaseRoute] = (
    *metric_paths.routes,
    *job_paths.routes,
    *history_paths.routes,
    *execution_result_paths.routes,
    *operation_paths.routes,
    *rescaling_paths.routes,
    *autoscaler_paths.routes,
    *accumulator_paths.routes,
    *vertex_paths.routes,
    *flame_graph_paths.routes,
    *checkpoint_paths.routes,
    *checkpoint_triggers.routes,
    *trigger_outcomes.routes,
    *cluster_paths.routes,
    *log_paths.routes,
    *state_paths.routes,
    *prometheus.routes,
    *open_api.routes,
)
"""Return all paths of a process that runs jobs."""


def application(jobs: ServedJobs, token: str, cookie: str, pages: Sequence[BaseRoute] | None = None) -> Starlette:
    """Return the application for these jobs. `pages`: routes for paths that REST does not have; None: our own page."""
    app = guarded([*ROUTES, *(own_page.routes if pages is None else pages)], token, cookie, own=pages is None)
    app.state.jobs = jobs
    return app


def guarded(routes: Sequence[BaseRoute], token: str, cookie: str, own: bool = True) -> Starlette:
    """Return an application of these routes that requires the token.

    `own`: all pages are ours, and load nothing else.
    """
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token, cookie=cookie, policy=OWN_POLICY if own else None)],
        exception_handlers={HTTPException: _refused, Exception: _failed},  # type: ignore[dict-item]
    )
    app.router.redirect_slashes = False
    return app


async def _refused(request: Request, error: HTTPException) -> Response:
    text = error.detail if error.detail != "Not Found" else f"Not found: {request.url.path}"
    return error_answer(error.status_code, text)


async def _failed(request: Request, error: Exception) -> Response:
    _log.error("%s %s could not be answered", request.method, request.url.path, exc_info=error)
    return error_answer(500, f"Internal server error: {type(error).__name__}: {error}")
