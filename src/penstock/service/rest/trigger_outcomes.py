"""The outcomes of savepoints and checkpoints that clients have triggered, in Flink's form."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from starlette.requests import Request

from penstock.service.rest.answers import get, job_of
from penstock.service.rest.java_exceptions import failure_cause

IN_PROGRESS: dict[str, Any] = {"status": {"id": "IN_PROGRESS"}, "operation": None}


def of_savepoint(future: Future[str]) -> dict[str, Any]:
    """A savepoint's path, or why it failed."""
    if not future.done():
        return IN_PROGRESS
    error = future.exception()
    return _completed({"location": future.result()} if error is None else {"failure-cause": failure_cause(error)})


def of_checkpoint(future: Future[str]) -> dict[str, Any]:
    """A checkpoint's number, or why it failed."""
    if not future.done():
        return IN_PROGRESS
    error = future.exception()
    return _completed(
        {"checkpointId": int(future.result())} if error is None else {"failureCause": failure_cause(error)}
    )


def _completed(operation: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"id": "COMPLETED"}, "operation": operation}


def triggers(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/triggers: all outcomes that have arrived, by trigger id. Flink has no such path."""
    entry = job_of(request)
    return {
        "savepoints": {id: of_savepoint(future) for id, future in entry.triggers.ended().items()},
        "checkpoints": {id: of_checkpoint(future) for id, future in entry.checkpoint_triggers.ended().items()},
    }


routes = [get("/jobs/{jobid}/triggers", triggers)]
