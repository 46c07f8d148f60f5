"""/submissions: jobs as clients submit them to a cluster, and their states; /bundles: files that travel with them."""

from __future__ import annotations

import hashlib
import itertools
import re
import secrets
from pathlib import Path
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.errors import JobError, PenstockError
from penstock.common.files.durable import sync_local, sync_written
from penstock.common.job_id import JobID
from penstock.common.time.wall_clock import now_ms
from penstock.common.values.decoding import DECODING_ERRORS
from penstock.engine.rpc.commands import send_command
from penstock.engine.rpc.messages import Command
from penstock.service.client.bundle import BUNDLE_NAME
from penstock.service.cluster.high_availability.pointers import NotLeadingError
from penstock.service.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.service.dispatcher.events import CancelRequested
from penstock.service.dispatcher.host import DispatcherHost
from penstock.service.dispatcher.job_output import OutputGoneError, part_of_output
from penstock.service.dispatcher.job_store import FIGURES
from penstock.service.rest.answers import body_of, get, id_of, json_answer
from penstock.service.rest.described_route import TEXT, DescribedRoute, Parameter
from penstock.service.rest.slow_request_threads import in_slow_request_thread

_OUTPUT_MAX = 1 << 20
_FROM = Parameter("from", "The first byte.", int)
_COMMAND_S = 10.0
_ID = "[0-9a-f]{32}"
_ID_CHOSEN = Parameter("id", "Id of the submission, chosen by its client: 32 hexadecimal digits.", str)


class Submission(msgspec.Struct, frozen=True):
    """A job of this cluster. `waiting`: why it does not run yet; empty: it runs, or has ended."""

    id: str
    name: str
    phase: str
    job_id: str
    slots: int
    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None
    status: str | None
    kind: str
    error: str
    waiting: str


class Accepted(msgspec.Struct, frozen=True):
    """The id of the submission."""

    id: str


class CommandAnswer(msgspec.Struct, frozen=True):
    """The answer of a job."""

    text: str


def host_of(request: Request) -> DispatcherHost:
    """Return the dispatcher's host."""
    host: DispatcherHost = request.app.state.dispatcher
    return host


def dispatched(request: Request) -> DispatchedJob:
    """Return the job that the path names, by the id of its submission or its own. Raises HTTPException: 404."""
    id = id_of(request, "id")
    job = host_of(request).find(id)
    if job is None:
        raise HTTPException(404, f"Job {id} not found")
    return job


def shown(host: DispatcherHost, job: DispatchedJob) -> Submission:
    """Return a job as clients see it."""
    return Submission(
        id=job.id,
        name=job.name,
        phase=job.phase.name,
        job_id=job.job_id,
        slots=job.slots,
        submitted_ms=job.submitted_ms,
        started_ms=job.started_ms,
        ended_ms=job.ended_ms,
        status=None if job.status is None else job.status.name,
        kind=job.kind,
        error=job.error,
        waiting=why_it_waits(host, job),
    )


def why_it_waits(host: DispatcherHost, job: DispatchedJob) -> str:
    """Return what a job waits for; empty: it does not wait."""
    if job.phase is not Phase.QUEUED:
        return ""
    before = [
        other
        for other in itertools.takewhile(lambda other: other.id != job.id, host.jobs)
        if other.phase is Phase.QUEUED
    ]
    ahead = f", behind {len(before)} other{'s'[: len(before) != 1]}" if before else ""
    return f"waits for {job.slots} slot{'s'[: job.slots != 1]}{ahead}: {host.free} of {host.slots} are free"


def submissions(request: Request) -> list[Submission]:
    """GET /submissions: all submitted jobs, oldest first."""
    host = host_of(request)
    return [shown(host, job) for job in host.jobs]


def submission(request: Request) -> Submission:
    """GET /submissions/:id: one submitted job."""
    return shown(host_of(request), dispatched(request))


async def submit(request: Request) -> Response:
    """POST /submissions: accept a job, as penstock's client packs it. Its bundle was sent before.

    With an `id` that its client has chosen, it is accepted once, however often it is sent.
    """
    packed, host = await request.body(), host_of(request)
    id = request.query_params.get("id") or str(JobID.generate())
    if not re.fullmatch(_ID, id):
        raise HTTPException(400, f"expected 32 hexadecimal digits as the id of a submission, got '{id}'")
    try:
        await run_in_threadpool(host.submit, id, packed)
    except DECODING_ERRORS as error:
        raise HTTPException(
            400, f"the content is not a job of a client with this version of penstock: {error}"
        ) from None
    except NotLeadingError as error:
        raise HTTPException(421, str(error)) from None
    except PenstockError as error:
        raise HTTPException(409, str(error)) from None
    return json_answer(Accepted(id), 202)


async def cancel(request: Request) -> Response:
    """PATCH /submissions/:id: cancel a job, whether it runs or waits."""
    job = dispatched(request)
    if job.status is not None:
        raise HTTPException(409, f"Job {job.id} has ended: {job.status.name}")
    host_of(request).post(CancelRequested(now_ms(), job.id))
    return json_answer({}, 202)


async def command(request: Request) -> Response:
    """POST /submissions/:id/commands: send a command of penstock to a running job."""
    job, wanted = dispatched(request), await body_of(request, Command)
    control, host = job.control, host_of(request)
    if job.status is not None and wanted.verb == "figures":
        kept = host.store.folder(job.id) / FIGURES
        if kept.exists():
            return json_answer(CommandAnswer(await run_in_threadpool(kept.read_text, encoding="utf-8")))
    if control is None:
        raise HTTPException(409, f"the job '{job.name}' does not accept commands now: {job.phase.name.lower()}")
    timeout_s = None if wanted.verb in ("savepoint", "stop", "scale") else _COMMAND_S

    def is_there() -> bool:
        found = host.find(job.id)
        return found is not None and found.control == control

    try:
        text = await in_slow_request_thread(send_command, control, wanted, timeout_s=timeout_s, is_running=is_there)
    except JobError as error:
        raise HTTPException(409, str(error)) from None
    return json_answer(CommandAnswer(text))


async def output(request: Request) -> Response:
    """GET /submissions/:id/output: standard output of the job's process, from a byte on.

    410 if that part was removed, with the first byte that is kept (`begin`).
    """
    job = dispatched(request)
    begin = request.query_params.get("from", "0")
    if not (begin.isascii() and begin.isdigit() and len(begin) < 19):
        raise HTTPException(400, f"from must be a number, got '{begin}'")
    folder = host_of(request).store.folder(job.id)
    try:
        part = await run_in_threadpool(part_of_output, folder, int(begin), _OUTPUT_MAX)
    except OutputGoneError as error:
        return json_answer({"errors": [str(error)], "begin": error.begin}, 410)
    return Response(part, media_type=TEXT)


def _bundle(request: Request) -> Path:
    name = request.path_params["name"]
    if not re.fullmatch(BUNDLE_NAME, name):
        raise HTTPException(400, f"expected the name of a bundle, made from its content, got '{name}'")
    return host_of(request).store.bundle(name)


def has_bundle(request: Request) -> dict[str, Any]:
    """GET /bundles/:name: whether it exists."""
    return {"there": host_of(request).store.wanted(_bundle(request))}


async def put_bundle(request: Request) -> Response:
    """PUT /bundles/:name: files that travel with jobs. Checks that the name matches the content."""
    path = _bundle(request)
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    digest, chunks = hashlib.sha256(), request.stream()
    try:
        with part.open("wb") as file:
            async for chunk in chunks:
                digest.update(chunk)
                await run_in_threadpool(file.write, chunk)
            # An accepted job has its code on disk, even after a power failure.
            await run_in_threadpool(sync_written, file)
        if not path.name.startswith(f"penstock-{digest.hexdigest()[:32]}"):
            raise HTTPException(400, "the content does not match this name: it was damaged on its way")
        part.rename(path)
        await run_in_threadpool(sync_local, path.parent)
    except OSError as error:
        async for _ in chunks:
            # Read the rest first: a client that is still sending would see a closed connection instead of the reason.
            pass
        raise HTTPException(507, f"the cluster cannot store the code of the job: {error}") from None
    finally:
        part.unlink(missing_ok=True)
    return json_answer({}, 201)


routes = [
    get("/submissions", submissions),
    DescribedRoute("/submissions", submit, query=[_ID_CHOSEN], method="POST", answer=Accepted, status=202),
    get("/submissions/{id}", submission),
    DescribedRoute("/submissions/{id}", cancel, method="PATCH", answer=dict[str, Any], status=202),
    DescribedRoute("/submissions/{id}/commands", command, method="POST", body=Command, answer=CommandAnswer),
    DescribedRoute("/submissions/{id}/output", output, query=[_FROM], media_type=TEXT),
    get("/bundles/{name}", has_bundle),
    DescribedRoute("/bundles/{name}", put_bundle, method="PUT", answer=dict[str, Any], status=201),
]
