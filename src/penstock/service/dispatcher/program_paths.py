"""/jars: upload programs to a cluster and run them, by the paths that Flink has for jars."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.errors import ConfigurationError, JobError
from penstock.common.values.decoding import converted
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.program_runs import plan_program, run_program
from penstock.service.dispatcher.programs import Programs, UploadedProgram
from penstock.service.rest import cluster_paths
from penstock.service.rest.answers import body_of, get, json_answer
from penstock.service.rest.described_route import DescribedRoute, Parameter
from penstock.service.rest.slow_request_threads import in_slow_request_thread

T = TypeVar("T")

_CLAIM_MODE = "NO_CLAIM"
_QUERY = [
    Parameter("entry-class", "The file to run, by its path within a zip.", str),
    Parameter("program-args", "Arguments of the program, as in a shell.", str),
    Parameter("programArg", "Arguments of the program, separated by commas.", str),
    Parameter("parallelism", "Subtasks of each operator.", int),
]


class RunRequest(msgspec.Struct, frozen=True, rename="camel"):
    """How to run a program. `entry_class`: the file, by its path within a zip. Omitted fields are null."""

    entry_class: str | None = None
    program_args: str | None = None
    program_args_list: list[str] | None = None
    parallelism: Annotated[int, msgspec.Meta(ge=1)] | None = None
    savepoint_path: str | None = None
    allow_non_restored_state: bool | None = None
    claim_mode: str | None = None
    job_id: str | None = None
    flink_configuration: dict[str, str] | None = None


def config(request: Request) -> dict[str, Any]:
    """GET /config: version, time zone and features: programs can be uploaded."""
    of_a_job = cluster_paths.config(request)
    return {**of_a_job, "features": {**of_a_job["features"], "web-submit": True}}


def jars(request: Request) -> dict[str, Any]:
    """GET /jars: the uploaded programs, newest first."""
    files = [
        {
            "id": program.id,
            "name": program.name,
            "uploaded": program.uploaded_ms,
            "entry": [{"name": entry, "description": None} for entry in program.entries],
        }
        for program in _programs(request).all()
    ]
    return {"address": _address(request).url, "files": files}


async def upload(request: Request) -> Response:
    """POST /jars/upload: store a program: a form with one file, NAME.py or NAME.zip."""
    async with request.form() as form:
        files = [value for value in form.values() if isinstance(value, UploadFile)]
        if len(files) != 1:
            raise HTTPException(
                400, f"expected a form with one file, such as curl -F jarfile=@job.py, got {len(files)}"
            )
        try:
            program = await run_in_threadpool(_programs(request).add, files[0].filename or "", files[0].file)
        except ConfigurationError as error:
            raise HTTPException(400, str(error)) from None
        except OSError as error:
            raise HTTPException(507, f"the cluster cannot store the program: {error}") from None
    return json_answer({"filename": str(_programs(request).directory / program.id), "status": "success"})


async def delete(request: Request) -> Response:
    """DELETE /jars/:jarid: remove a program. Its jobs keep running."""
    program = _program(request)
    try:
        await run_in_threadpool(_programs(request).remove, program.id)
    except FileNotFoundError:
        # Another request has removed it first.
        raise HTTPException(404, f"Program {program.id} not found") from None
    return json_answer({})


async def run(request: Request) -> Response:
    """POST /jars/:jarid/run: run a program. Answers with the id of its first job, which may wait for slots."""
    wanted = await _wanted(request)
    options = _options(wanted)
    if wanted.savepoint_path:
        options += ["-s", wanted.savepoint_path]
    if wanted.allow_non_restored_state:
        options += ["-n"]
    file = _file(request, wanted)
    address, token = _address(request), request.app.state.token
    host = address.url.removeprefix("http://")
    job_id = await in_slow_request_thread(
        _with_refusals, lambda: run_program(file, options, _arguments(wanted), address=host, token=token)
    )
    return json_answer({"jobid": job_id})


async def plan(request: Request) -> Response:
    """GET or POST /jars/:jarid/plan: the job graph of a program, which is not run."""
    wanted = await _wanted(request)
    file = _file(request, wanted)
    found = await in_slow_request_thread(
        _with_refusals, lambda: plan_program(file, _options(wanted), _arguments(wanted))
    )
    return json_answer({"plan": found})


def _programs(request: Request) -> Programs:
    programs: Programs = request.app.state.programs
    return programs


def _address(request: Request) -> RestAddress:
    address: RestAddress = request.app.state.address
    return address


def _program(request: Request) -> UploadedProgram:
    id = request.path_params["jarid"]
    program = _programs(request).find(id)
    if program is None:
        raise HTTPException(404, f"Program {id} not found")
    return program


def _file(request: Request, wanted: RunRequest) -> Path:
    try:
        return _programs(request).file(_program(request), wanted.entry_class or None)
    except ConfigurationError as error:
        raise HTTPException(400, str(error)) from None


async def _wanted(request: Request) -> RunRequest:
    """Read options from the body; those that it omits, from the query. Flink's pages use both."""
    query = request.query_params
    body = await body_of(request, dict[str, Any])
    from_query = {
        "entryClass": query.get("entry-class"),
        "programArgs": query.get("program-args"),
        "programArgsList": query["programArg"].split(",") if "programArg" in query else None,
        "parallelism": query.get("parallelism"),
        "savepointPath": query.get("savepointPath"),
        "allowNonRestoredState": query.get("allowNonRestoredState"),
    }
    given = {key: value for key, value in (from_query | body).items() if value not in (None, "")}
    try:
        # Not strictly: a page may send a number as text.
        wanted = converted(given, RunRequest, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"Bad request: {error}") from None
    if wanted.job_id is not None:
        raise HTTPException(400, "jobId is not supported: the cluster chooses the id. Leave it out")
    if wanted.claim_mode not in (None, _CLAIM_MODE):
        raise HTTPException(400, f"claimMode must be {_CLAIM_MODE}: a savepoint stays its owner's. Leave it out")
    return wanted


def _options(wanted: RunRequest) -> list[str]:
    settings = [f"-D{key}={value}" for key, value in (wanted.flink_configuration or {}).items()]
    return [*settings, *(["-p", str(wanted.parallelism)] if wanted.parallelism is not None else [])]


def _arguments(wanted: RunRequest) -> list[str]:
    if wanted.program_args_list is not None:
        return wanted.program_args_list
    try:
        return shlex.split(wanted.program_args or "")
    except ValueError as error:
        raise HTTPException(400, f"programArgs: {error}") from None


def _with_refusals(call: Callable[[], T]) -> T:
    try:
        return call()
    except JobError as error:
        raise HTTPException(400, str(error)) from None


routes = [
    get("/config", config),
    get("/jars", jars),
    DescribedRoute("/jars/upload", upload, method="POST", answer=dict[str, Any]),
    DescribedRoute("/jars/{jarid}", delete, method="DELETE", answer=dict[str, Any]),
    DescribedRoute("/jars/{jarid}/run", run, method="POST", query=_QUERY, body=RunRequest, answer=dict[str, Any]),
    DescribedRoute("/jars/{jarid}/plan", plan, query=_QUERY, answer=dict[str, Any]),
    DescribedRoute("/jars/{jarid}/plan", plan, method="POST", query=_QUERY, body=RunRequest, answer=dict[str, Any]),
]
