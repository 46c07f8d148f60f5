"""How requests become answers: JSON with Flink's status codes, errors as Flink writes them."""

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

from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.text.secrets import hidden_in
from penstock.common.values.decoding import from_json
from penstock.engine.plan.job_graph import JobVertex
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.service.rest.described_route import DescribedRoute, Parameter, text_of
from penstock.service.rest.served_jobs import JobEntry, ServedJobs

BODY_MOST = 1 << 16
"""Bytes of a request's body. The longest that Flink's clients send names a directory."""
_DIGITS = 20
"""So many of a length are read: thousands of them are no number that Python reads."""

_ID = re.compile("[0-9a-fA-F]{32}")

T = TypeVar("T")
Render = Callable[[Request], Any]
"""Makes what is sent as JSON. Raises HTTPException."""


def json_answer(value: Any, status: int = 200) -> Response:
    """A value as JSON, without the passwords of URLs: paths of checkpoints, messages of errors."""
    # In each text for itself. To look through all of the JSON would hold the interpreter for a second where a job has
    # thousands of subtasks; and what begins as a secret in one text would hide what is behind it.
    return data_answer(hidden_in(msgspec.to_builtins(value, str_keys=True)), status)


def data_answer(value: Any, status: int = 200) -> Response:
    """The same, with all that is in it: what a user asked for is their own data, such as state."""
    # What comes from users' strings may have lone surrogates, which JSON has no bytes for.
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        # What is no number in JSON is null, as msgspec writes it.
        body = json.dumps(json.loads(json.dumps(value), parse_constant=lambda name: None)).encode()
    return Response(body, status, media_type="application/json")


def error_answer(status: int, text: str) -> Response:
    """An error, as Flink's clients read it."""
    return json_answer({"errors": [text]}, status)


def get(path: str, render: Render, *query: Parameter) -> DescribedRoute:
    """A route that reads. What it answers is the annotated type of what `render` returns."""

    async def endpoint(request: Request) -> Response:
        return json_answer(render(request))

    answer = get_type_hints(render)["return"]
    return DescribedRoute(path, endpoint, text=text_of(render), query=query, answer=answer)


def jobs_of(request: Request) -> ServedJobs:
    """All jobs."""
    jobs: ServedJobs = request.app.state.jobs
    return jobs


def id_of(request: Request, name: str) -> str:
    """An id in the path, in the form in which ids are kept: Flink reads their digits in any case."""
    value: str = request.path_params[name]
    return value.lower() if _ID.fullmatch(value) else value


def not_found(request: Request, name: str, text: str) -> HTTPException:
    """What the path names is not there, 404; or it is no id at all, 400. Source: Flink's REST."""
    value = request.path_params[name]
    if _ID.fullmatch(value):
        return HTTPException(404, text)
    why = f'Cannot resolve path parameter ({name}) from value "{value:.200}"'
    return HTTPException(400, f"Bad request, could not parse parameters: {why}: 32 hexadecimal digits are expected")


def job_of(request: Request) -> JobEntry:
    """The job that the path names. Raises HTTPException: 404, 400."""
    job_id = id_of(request, "jobid")
    entry = jobs_of(request).find(job_id)
    if entry is None:
        raise not_found(request, "jobid", f"Job {job_id} not found")
    # One answer is of one moment: the job may be rescaled, and subtasks be gone, between two looks at it.
    return dataclasses.replace(entry, seen=entry.job.execution_graph)


def vertex_of(request: Request, entry: JobEntry) -> JobVertex:
    """The vertex that the path names. Raises HTTPException: 404, 400."""
    wanted = id_of(request, "vertexid")
    for vertex in entry.graph.graph.vertices:
        if vertex_id(vertex) == wanted:
            return vertex
    raise not_found(request, "vertexid", f"JobVertex {wanted} not found in job {entry.job_id}")


def subtask_of(request: Request, vertex: JobVertex) -> int:
    """The subtask that the path names. Raises HTTPException: 404."""
    subtask = number_of(request, "subtaskindex")
    if subtask >= vertex.parallelism:
        raise HTTPException(404, f"Invalid subtask index for vertex {vertex_id(vertex)}: {subtask}")
    return subtask


def number_of(request: Request, name: str) -> int:
    """A number in the path. Raises HTTPException: 400."""
    text = request.path_params[name]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise HTTPException(400, f"{name} is a whole number from 0 on, got '{text}'")
    return int(text)


async def bytes_of(request: Request) -> bytes:
    """The body of a request, whatever length it has announced. Raises HTTPException: 413."""
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:_DIGITS]) > BODY_MOST:
        # At once: one that never comes would hold the connection until it is given up.
        raise _too_long()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MOST:
            raise _too_long()
    return bytes(body)


def _too_long() -> HTTPException:
    return HTTPException(413, f"a request has {BODY_MOST} bytes at most")


async def body_of(request: Request, kind: type[T]) -> T:
    """The JSON object that a request brings; with defaults alone if it brings none. Raises HTTPException: 400, 413."""
    body = await bytes_of(request)
    try:
        return from_json(body or b"{}", kind)
    except UNREADABLE as error:
        raise HTTPException(400, f"Bad request: a JSON object was expected: {error}") from None
