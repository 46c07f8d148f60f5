"""Answers to requests: JSON with Flink's status codes, and errors in Flink's form."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.text.secrets import redacted_json
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.plan.job_graph import JobVertex
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.service.rest.described_route import DescribedRoute, Parameter, text_of
from penstock.service.rest.served_jobs import JobEntry, ServedJobs

BODY_MAX = 1 << 16
"""Most bytes of a request's body. The longest that Flink's clients send names a directory."""
_DIGITS = 20
"""Most digits that are read: Python refuses to parse thousands of digits."""

_ID = re.compile("[0-9a-fA-F]{32}")

T = TypeVar("T")
Render = Callable[[Request], Any]
"""Create the JSON answer to a request. Raises HTTPException."""


def json_answer(value: Any, status: int = 200) -> Response:
    """Answer a value as JSON, without the passwords of URLs in paths of checkpoints and messages of errors."""
    # In each text separately. Searching the whole JSON would hold the interpreter for a second for a job with thousands
    # of subtasks; and what looks like the start of a secret in one text would hide the texts after it.
    return data_answer(redacted_json(msgspec.to_builtins(value, str_keys=True)), status)


def data_answer(value: Any, status: int = 200) -> Response:
    """Answer a value as JSON without hiding anything: the user's own data, such as state."""
    # Users' strings may contain lone surrogates, which have no UTF-8 form.
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # Numbers that JSON lacks become null, as msgspec writes them.
        body = json.dumps(json.loads(json.dumps(value), parse_constant=lambda name: None)).encode()
    return Response(body, status, media_type="application/json")


def error_answer(status: int, text: str) -> Response:
    """Answer an error in the form that Flink's clients read."""
    return json_answer({"errors": [text]}, status)


def get(path: str, render: Render, *query: Parameter) -> DescribedRoute:
    """A route that reads. Its answer has the annotated type of what `render` returns."""

    async def endpoint(request: Request) -> Response:
        return json_answer(render(request))

    answer = get_type_hints(render)["return"]
    return DescribedRoute(path, endpoint, text=text_of(render), query=query, answer=answer)


def jobs_of(request: Request) -> ServedJobs:
    """Return all jobs."""
    jobs: ServedJobs = request.app.state.jobs
    return jobs


def id_of(request: Request, name: str) -> str:
    """Return an id in the path, in lower case: Flink accepts digits in any case."""
    value: str = request.path_params[name]
    return value.lower() if _ID.fullmatch(value) else value


def not_found(request: Request, name: str, text: str) -> HTTPException:
    """Return the error for an unknown id, 404, or for an invalid one, 400. Source: Flink's REST."""
    value = request.path_params[name]
    if _ID.fullmatch(value):
        return HTTPException(404, text)
    why = f'Cannot resolve path parameter ({name}) from value "{value:.200}"'
    expected = "32 hexadecimal digits, or a job's name, are expected"
    return HTTPException(400, f"Bad request, could not parse parameters: {why}: {expected}")


def job_of(request: Request) -> JobEntry:
    """Return the job that the path names. Raises HTTPException: 404, 400."""
    job_id = id_of(request, "jobid")
    entry = jobs_of(request).find(job_id)
    if entry is None:
        raise not_found(request, "jobid", f"Job {job_id} not found")
    # All parts of one answer are of the same moment: the job may be rescaled, and lose subtasks, between two reads.
    return dataclasses.replace(entry, seen=entry.job.execution_graph)


def vertex_of(request: Request, entry: JobEntry) -> JobVertex:
    """Return the vertex that the path names. Raises HTTPException: 404, 400."""
    wanted = id_of(request, "vertexid")
    for vertex in entry.graph.graph.vertices:
        if vertex_id(vertex) == wanted:
            return vertex
    raise not_found(request, "vertexid", f"JobVertex {wanted} not found in job {entry.job_id}")


def subtask_of(request: Request, vertex: JobVertex) -> int:
    """Return the subtask that the path names. Raises HTTPException: 404."""
    subtask = number_of(request, "subtaskindex")
    if subtask >= vertex.parallelism:
        raise HTTPException(404, f"Invalid subtask index for vertex {vertex_id(vertex)}: {subtask}")
    return subtask


def number_of(request: Request, name: str) -> int:
    """Return a number in the path. Raises HTTPException: 400."""
    text = request.path_params[name]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise HTTPException(400, f"{name} must be a whole number from 0 on, got '{text}'")
    return int(text)


async def bytes_of(request: Request) -> bytes:
    """Return the body of a request, whatever length it has announced. Raises HTTPException: 413."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:_DIGITS]) > BODY_MAX:
        # Before reading: a body that never arrives would hold the connection until the timeout.
        raise _too_long()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MAX:
            raise _too_long()
    return bytes(body)


def _too_long() -> HTTPException:
    return HTTPException(413, f"a request may have {BODY_MAX} bytes at most")


async def body_of(request: Request, kind: type[T]) -> T:
    """Return the JSON object of a request; with defaults alone if it has no body. Raises HTTPException: 400, 413."""
    body = await bytes_of(request)
    try:
        return from_json(body or b"{}", kind)
    except DECODING_ERRORS as error:
        raise HTTPException(400, f"Bad request: a JSON object was expected: {error}") from None
