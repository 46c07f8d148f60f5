"""Operations that clients request: take a savepoint, stop with one, cancel."""

from __future__ import annotations

import logging
import re
from typing import Annotated, Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.configuration import options
from penstock.common.files.file_systems import is_url
from penstock.common.job_status import JobStatus
from penstock.service.rest.answers import body_of, get, id_of, job_of, json_answer, not_found
from penstock.service.rest.described_route import DescribedRoute, Parameter
from penstock.service.rest.served_jobs import JobEntry
from penstock.service.rest.trigger_outcomes import of_savepoint

_log = logging.getLogger(__name__)
_MODE = Parameter("mode", "`cancel`, the only mode.")
_TRIGGER_ID = re.compile(r"[0-9a-f]{32}")


_TriggerId = Annotated[str, msgspec.Meta(description="32 hexadecimal digits in lower case.")]
_Format = Annotated[str, msgspec.Meta(description="CANONICAL, the only format.")]


class SavepointRequest(msgspec.Struct, rename={"directory": "target-directory", "cancel_job": "cancel-job"}):
    """The request for a savepoint, below a directory or the configured one. The client may choose the trigger's id."""

    directory: str | None = None
    cancel_job: bool | None = None
    formatType: _Format | None = None  # noqa: N815 - Flink's spelling
    triggerId: _TriggerId | None = None  # noqa: N815


class StopRequest(msgspec.Struct, rename={"directory": "targetDirectory"}):
    """The request to stop with a savepoint. `drain`: first advance event time to its end."""

    directory: str | None = None
    drain: bool | None = None
    formatType: _Format | None = None  # noqa: N815 - Flink's spelling
    triggerId: _TriggerId | None = None  # noqa: N815


class Trigger(msgspec.Struct, rename="kebab"):
    """The id of the trigger, by which the outcome can be read."""

    request_id: str


async def savepoint(request: Request) -> Response:
    """POST /jobs/:jobid/savepoints: take a savepoint. Answers with the id of the trigger."""
    entry, body = job_of(request), await body_of(request, SavepointRequest)
    return _trigger(entry, body, stop=bool(body.cancel_job), drain=False)


async def stop(request: Request) -> Response:
    """POST /jobs/:jobid/stop: stop with a savepoint. Answers with the id of the trigger."""
    entry, body = job_of(request), await body_of(request, StopRequest)
    return _trigger(entry, body, stop=True, drain=bool(body.drain))


def _trigger(entry: JobEntry, body: SavepointRequest | StopRequest, stop: bool, drain: bool) -> Response:
    trigger_id, directory = body.triggerId, body.directory
    check_trigger_id(trigger_id)
    if trigger_id is not None and entry.triggers.find(trigger_id) is not None:
        # A client that got no answer retries with the same id, even after the job has stopped because of it.
        return json_answer(Trigger(trigger_id), 202)
    if directory and not is_url(directory) and not directory.startswith("/"):
        # The job's working directory differs from the client's.
        raise HTTPException(400, f"the target directory must be an absolute path, or have a scheme, got '{directory}'")
    if (body.formatType or "CANONICAL") != "CANONICAL":
        raise HTTPException(400, "formatType must be CANONICAL, the only format of savepoints")
    if not directory and entry.configuration.get(options.SAVEPOINT_DIRECTORY) is None:
        raise HTTPException(
            400,
            f"Config key [{options.SAVEPOINT_DIRECTORY.key}] is not set. Property [targetDirectory] must be provided.",
        )
    check_runs(entry)
    if stop:
        _log.warning("a client stops the job with a savepoint over REST")
    trigger_id = entry.triggers.add(entry.job.savepoint(directory or None, stop, drain), trigger_id)
    return json_answer(Trigger(trigger_id), 202)


def outcome(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/savepoints/:triggerid: the outcome of a savepoint."""
    entry, trigger_id = job_of(request), id_of(request, "triggerid")
    future = entry.triggers.find(trigger_id)
    if future is None:
        text = f"There is no savepoint with the trigger id {trigger_id} of job {entry.job_id}"
        raise not_found(request, "triggerid", text)
    if future.done():
        entry.triggers.was_read(trigger_id)
    return of_savepoint(future)


async def cancel(request: Request) -> Response:
    """PATCH /jobs/:jobid?mode=cancel: cancel the job, which ends soon."""
    entry = job_of(request)
    mode = request.query_params.get("mode", "cancel")
    if mode.lower() != "cancel":
        raise HTTPException(400, f"mode must be cancel, got '{mode}'; to stop a job with a savepoint: POST …/stop")
    if entry.graph.status is JobStatus.CANCELED:
        return json_answer({}, 202)
    check_runs(entry)
    _log.warning("a client cancels the job over REST")
    entry.job.cancel()
    return json_answer({}, 202)


def check_trigger_id(trigger_id: str | None) -> None:
    """Raise HTTPException, 400, for an invalid id."""
    if trigger_id is not None and not _TRIGGER_ID.fullmatch(trigger_id):
        raise HTTPException(400, "triggerId must have 32 hexadecimal digits in lower case")


def check_runs(entry: JobEntry) -> None:
    """Raise HTTPException, 409, if the job has ended."""
    status = entry.graph.status
    if status.is_terminal_state():
        raise HTTPException(409, f"Job {entry.job_id} has ended: {status.name}")


routes = [
    DescribedRoute("/jobs/{jobid}", cancel, method="PATCH", query=[_MODE], answer=dict[str, Any], status=202),
    DescribedRoute(
        "/jobs/{jobid}/savepoints", savepoint, method="POST", body=SavepointRequest, answer=Trigger, status=202
    ),
    DescribedRoute("/jobs/{jobid}/stop", stop, method="POST", body=StopRequest, answer=Trigger, status=202),
    get("/jobs/{jobid}/savepoints/{triggerid}", outcome),
]
