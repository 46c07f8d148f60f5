"""The parallelism of a running job, which Flink calls the resource requirements of its vertices.

Source: Flink docs, "Elastic Scaling", Externalized Declarative Resource Management; FLIP-291.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, wait
from typing import Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.errors import JobError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.plan.rescaling import rescaled
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.service.rest.answers import bytes_of, get, job_of, json_answer
from penstock.service.rest.described_route import DescribedRoute
from penstock.service.rest.served_jobs import JobEntry

_log = logging.getLogger(__name__)
_REFUSED_S = 1.0

_Subtasks = Annotated[int, msgspec.Meta(ge=1)]


class Bounds(msgspec.Struct, rename="camel"):
    """Bounds of a number of subtasks. The vertex gets `upperBound`: a job runs with all its slots, or not at all.

    `lowerBound` must not exceed it, and has no other effect.
    """

    upper_bound: _Subtasks
    lower_bound: _Subtasks = 1


class VertexRequirements(msgspec.Struct):
    """The requirements of one vertex."""

    parallelism: Bounds


Requirements = dict[str, VertexRequirements]
"""The requirements by id of the vertex."""


def requirements(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/resource-requirements: the parallelism of each vertex."""
    vertices = job_of(request).graph.graph.vertices
    return {vertex_id(v): {"parallelism": {"lowerBound": 1, "upperBound": v.parallelism}} for v in vertices}


async def require(request: Request) -> Response:
    """PUT /jobs/:jobid/resource-requirements: change the parallelism of vertices. Omitted vertices keep theirs.

    The job takes a checkpoint, and resumes from it with other subtasks a moment later: the answer does not wait for it.
    409 with the reason if the job can't do so now.
    """
    entry = job_of(request)
    try:
        wanted = from_json(await bytes_of(request), Requirements)
    except DECODING_ERRORS as error:
        raise HTTPException(400, f"Bad request, expected the requirements of vertices by id: {error}") from None
    parallelism = _by_vertex(entry, wanted)
    try:
        rescaled(entry.graph.graph, parallelism)
    except JobError as error:
        raise HTTPException(400, str(error)) from None
    status = entry.graph.status
    if status.is_terminal_state():
        raise HTTPException(409, f"Job {entry.job_id} has ended: {status.name}")
    _log.warning("a client changes the parallelism of the job over REST")
    outcome = entry.job.rescale(parallelism)
    # A refusal arrives within this time, so that the answer can report it.
    await run_in_threadpool(wait, [outcome], _REFUSED_S)
    if outcome.done() and (refused := outcome.exception()) is not None:
        raise HTTPException(409, str(refused))
    outcome.add_done_callback(_log_outcome)
    return json_answer({})


def _log_outcome(outcome: Future[str]) -> None:
    """Log a later failure, since the client no longer waits."""
    error = outcome.exception()
    if error is None:
        _log.info("%s", outcome.result())
    else:
        _log.warning("the job keeps its parallelism: %s", error)


def _by_vertex(entry: JobEntry, wanted: Requirements) -> dict[int, int]:
    ids = {vertex_id(vertex): vertex.id for vertex in entry.graph.graph.vertices}
    unknown = sorted(wanted.keys() - ids)
    if unknown:
        raise HTTPException(400, f"The job has no vertices with these ids: {', '.join(unknown)}")
    for id, one in wanted.items():
        least, most = one.parallelism.lower_bound, one.parallelism.upper_bound
        if least > most:
            raise HTTPException(400, f"The lower bound of the vertex {id} is above its upper bound: {least} > {most}")
    return {ids[id]: one.parallelism.upper_bound for id, one in wanted.items()}


routes = [
    get("/jobs/{jobid}/resource-requirements", requirements),
    DescribedRoute(
        "/jobs/{jobid}/resource-requirements", require, method="PUT", body=Requirements, answer=dict[str, Any]
    ),
]
