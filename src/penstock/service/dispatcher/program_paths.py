"""/jars: programs that are uploaded to a cluster and run there, by the paths by which Flink takes jars."""

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
from penstock.service.rest.patient_threads import in_patient_thread

T = TypeVar("T")

_CLAIM_MODE = "NO_CLAIM"
_QUERY = [
    Parameter("entry-class", "The file to run, by its path within a zip.", str),
    Parameter("program-args", "Arguments of the program, as in a shell.", str),
    Parameter("programArg", "Arguments of the program, separated by commas.", str),
    Parameter("parallelism", "Of each operator.", int),
]


class RunRequest(msgspec.Struct, frozen=True, rename="camel"):
    """How a program is to be run. `entry_class`: the file, by its path within a zip. What is not said is null."""

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
    """GET /config: the version, the time zone, and what may be done: programs are taken."""
    of_a_job = cluster_paths.config(request)
    return {**of_a_job, "features": {**of_a_job["features"], "web-submit": True}}


def jars(request: Request) -> dict[str, Any]:
    """GET /jars: the programs that were uploaded, the newest first."""
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
    """POST /jars/upload: keep a program: a form with one file, NAME.py or NAME.zip."""
    async with request.form() as form:
        files = [value for value in form.values() if isinstance(value, UploadFile)]
        if len(files) != 1:
            raise HTTPException(
                400, f"a form with one file was expected, e.g. curl -F jarfile=@job.py; got {len(files)}"
            )
        try:
            program = await run_in_threadpool(_programs(request).add, files[0].filename or "", files[0].file)
        except ConfigurationError as error:
            raise HTTPException(400, str(error)) from None
        except OSError as error:
            raise HTTPException(507, f"the cluster can't keep the program: {error}") from None
    return json_answer({"filename": str(_programs(request).directory / program.id), "status": "success"})


async def delete(request: Request) -> Response:
    """DELETE /jars/:jarid: remove a program. Its jobs go on."""
    program = _program(request)
    try:
        await run_in_threadpool(_programs(request).remove, program.id)
    except FileNotFoundError:
        # Somebody else was faster.
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
    job_id = await in_patient_thread(_told, lambda: run_program(file, options, _arguments(wanted), host, token))
    return json_answer({"jobid": job_id})


async def plan(request: Request) -> Response:
    """GET or POST /jars/:jarid/plan: the job graph of a program, which is not run."""
    wanted = await _wanted(request)
    file = _file(request, wanted)
    found = await in_patient_thread(_told, lambda: plan_program(file, _options(wanted), _arguments(wanted)))
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
    """What the body says; what it does not say, the query, as Flink's pages do both."""
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
    said = {key: value for key, value in (from_query | body).items() if value not in (None, "")}
    try:
        # Not strictly: a page's number may be text.
        wanted = converted(said, RunRequest, strict=False)
    except msgspec.ValidationError as error:
        raise HTTPException(400, f"Bad request: {error}") from None
    if wanted.job_id is not None:
        raise HTTPException(400, "jobId: a job's id is chosen when it is submitted. Leave it out")
    if wanted.claim_mode not in (None, _CLAIM_MODE):
        raise HTTPException(400, f"claimMode: {_CLAIM_MODE} alone: a savepoint stays its owner's. Leave it out")
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


def _told(call: Callable[[], T]) -> T:
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
