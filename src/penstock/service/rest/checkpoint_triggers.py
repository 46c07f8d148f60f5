"""Checkpoints that clients trigger, in addition to periodic ones. Source: Flink docs, "REST API"; FLIP-253."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.service.rest.answers import body_of, get, id_of, job_of, json_answer, not_found
from penstock.service.rest.described_route import DescribedRoute
from penstock.service.rest.operation_paths import Trigger, check_runs, check_trigger_id
from penstock.service.rest.trigger_outcomes import of_checkpoint

_TYPES = ("CONFIGURED", "FULL", "INCREMENTAL")
_log = logging.getLogger(__name__)
_Type = Annotated[
    str, msgspec.Meta(description="FULL: with all state; CONFIGURED, INCREMENTAL: like periodic checkpoints.")
]
_TriggerId = Annotated[str, msgspec.Meta(description="32 hexadecimal digits in lower case.")]


class CheckpointTriggerRequest(msgspec.Struct):
    """The request for a checkpoint. The client may choose the trigger's id."""

    checkpointType: _Type | None = None  # noqa: N815 - Flink's spelling
    triggerId: _TriggerId | None = None  # noqa: N815


async def trigger(request: Request) -> Response:
    """POST /jobs/:jobid/checkpoints: take a checkpoint. Answers with the id of the trigger."""
    entry, body = job_of(request), await body_of(request, CheckpointTriggerRequest)
    wanted = body.checkpointType or "CONFIGURED"
    if wanted not in _TYPES:
        raise HTTPException(400, f"checkpointType must be one of {', '.join(_TYPES)}, got '{wanted}'")
    check_trigger_id(body.triggerId)
    if body.triggerId is not None and entry.checkpoint_triggers.find(body.triggerId) is not None:
        return json_answer(Trigger(body.triggerId), 202)
    check_runs(entry)
    _log.info("a client requests a checkpoint over REST")
    taken = entry.job.checkpoint(wanted == "FULL")
    return json_answer(Trigger(entry.checkpoint_triggers.add(taken, body.triggerId)), 202)


def outcome(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/checkpoints/:triggerid: the outcome: the checkpoint's number, or why it failed."""
    entry, trigger_id = job_of(request), id_of(request, "triggerid")
    future = entry.checkpoint_triggers.find(trigger_id)
    if future is None:
        text = f"There is no checkpoint with the trigger id {trigger_id} of job {entry.job_id}"
        raise not_found(request, "triggerid", text)
    if future.done():
        entry.checkpoint_triggers.was_read(trigger_id)
    return of_checkpoint(future)


routes = [
    DescribedRoute(
        "/jobs/{jobid}/checkpoints",
        trigger,
        method="POST",
        body=CheckpointTriggerRequest,
        answer=Trigger,
        status=202,
    ),
    get("/jobs/{jobid}/checkpoints/{triggerid}", outcome),
]
