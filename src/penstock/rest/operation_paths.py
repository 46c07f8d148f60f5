"""What clients may ask a job to do: a savepoint, to stop with one, to be cancelled."""

from __future__ import annotations

import logging
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.common import options
from penstock.common.file_systems import is_url
from penstock.rest.answers import body_of, get, job_of, json_answer
from penstock.rest.java_exceptions import failure_cause
from penstock.rest.served_jobs import JobEntry

_log = logging.getLogger(__name__)
_TRIGGER_ID = re.compile(r"[0-9a-f]{32}")


async def savepoint(request: Request) -> Response:
    """POST /jobs/:jobid/savepoints: 202 with the id to ask for the outcome by."""
    entry, body = job_of(request), await body_of(request)
    stop = body.get("cancel-job") is True
    return _trigger(entry, body, body.get("target-directory"), stop, drain=False)


async def stop(request: Request) -> Response:
    """POST /jobs/:jobid/stop: the same, and the job stops with it."""
    entry, body = job_of(request), await body_of(request)
    return _trigger(entry, body, body.get("targetDirectory"), stop=True, drain=body.get("drain") is True)


def _trigger(entry: JobEntry, body: dict[str, Any], directory: Any, stop: bool, drain: bool) -> Response:
    trigger_id = body.get("triggerId")
    if trigger_id is not None and not (isinstance(trigger_id, str) and _TRIGGER_ID.fullmatch(trigger_id)):
        raise HTTPException(400, "triggerId has 32 hexadecimal digits in lower case")
    if directory is not None and not isinstance(directory, str):
        raise HTTPException(400, "the target directory is a text")
    if directory and not is_url(directory) and not directory.startswith("/"):
        # The job has another working directory than who asks for it.
        raise HTTPException(400, f"the target directory is an absolute path, or has a scheme; got '{directory}'")
    if (body.get("formatType") or "CANONICAL") != "CANONICAL":
        raise HTTPException(400, "savepoints are CANONICAL here; there are no NATIVE ones")
    if not directory and entry.configuration.get(options.SAVEPOINT_DIRECTORY) is None:
        raise HTTPException(
            400,
            f"Config key [{options.SAVEPOINT_DIRECTORY.key}] is not set. Property [targetDirectory] must be provided.",
        )
    _check_runs(entry)
    if trigger_id is None or entry.triggers.find(trigger_id) is None:
        if stop:
            _log.warning("the job is stopped with a savepoint from outside: REST")
        trigger_id = entry.triggers.add(entry.job.savepoint(directory or None, stop, drain), trigger_id)
    return json_answer({"request-id": trigger_id}, 202)


def outcome(request: Request) -> Any:
    """GET /jobs/:jobid/savepoints/:triggerid: IN_PROGRESS, or COMPLETED with the path or the cause of its failure."""
    entry, trigger_id = job_of(request), request.path_params["triggerid"]
    future = entry.triggers.find(trigger_id)
    if future is None:
        raise HTTPException(404, f"There is no savepoint with the trigger id {trigger_id} of job {entry.job_id}")
    if not future.done():
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    error = future.exception()
    operation = {"location": future.result()} if error is None else {"failure-cause": failure_cause(error)}
    entry.triggers.was_read(trigger_id)
    return {"status": {"id": "COMPLETED"}, "operation": operation}


async def cancel(request: Request) -> Response:
    """PATCH /jobs/:jobid?mode=cancel: 202; the job ends soon."""
    entry = job_of(request)
    mode = request.query_params.get("mode", "cancel")
    if mode != "cancel":
        raise HTTPException(400, f"mode is cancel, got '{mode}'; to stop a job with a savepoint: POST …/stop")
    _check_runs(entry)
    _log.warning("the job is cancelled from outside: REST")
    entry.job.cancel()
    return json_answer({}, 202)


def _check_runs(entry: JobEntry) -> None:
    status = entry.graph.status
    if status.is_terminal_state():
        raise HTTPException(409, f"Job {entry.job_id} has ended: {status.name}")


routes = [
    Route("/jobs/{jobid}", cancel, methods=["PATCH"], name="cancel"),
    Route("/jobs/{jobid}/savepoints", savepoint, methods=["POST"], name="savepoint"),
    Route("/jobs/{jobid}/stop", stop, methods=["POST"], name="stop"),
    get("/jobs/{jobid}/savepoints/{triggerid}", outcome),
]
