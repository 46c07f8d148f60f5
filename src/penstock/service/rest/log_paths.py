"""Logs: the files in a job's folder, and their text. A file is sent only if it is in the list."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.engine.runtime.ids import SlotId
from penstock.service.rest.answers import get, jobs_of
from penstock.service.rest.described_route import TEXT, DescribedRoute, Parameter
from penstock.service.rest.served_jobs import JobEntry, slot_name

_WORKER = "level-"
_DRIVER = "driver.log"
_CHUNK_BYTES = 1 << 16
LAST = Parameter("last", "Most bytes to return, from the end; default: all.", int)


def driver_logs(request: Request) -> dict[str, Any]:
    """GET /jobmanager/logs: the logs of the driver and of Spark's JVM."""
    return listed(_files(request, lambda name: not name.startswith(_WORKER)))


def worker_logs(request: Request) -> dict[str, Any]:
    """GET /taskmanagers/:taskmanagerid/logs: the logs of a worker. 404: there is, and was, no such worker."""
    files, id = _files(request, _is_of_worker(request)), request.path_params["taskmanagerid"]
    if not files and not any(id == slot_name(slot) for entry in jobs_of(request).all() for slot in _slots(entry)):
        raise HTTPException(404, f"TaskExecutor {id} not found")
    return listed(files)


def _slots(entry: JobEntry) -> set[SlotId]:
    """Return the slots of a job, including those of tasks that have ended."""
    return {execution.slot for execution in entry.graph.executions.values()}


async def driver_log(request: Request) -> Response:
    """GET /jobmanager/log, /jobmanager/logs/:filename: the text of a log of the driver."""
    name = request.path_params.get("filename", _DRIVER)
    files = _files(request, lambda other: not other.startswith(_WORKER))
    return text_answer(files, name, request.query_params.get("last"))


async def worker_log(request: Request) -> Response:
    """GET /taskmanagers/:taskmanagerid/log, /stdout, /logs/:filename: a worker's log, with its functions' output."""
    name = request.path_params.get("filename", f"{request.path_params['taskmanagerid']}.log")
    return text_answer(_files(request, _is_of_worker(request)), name, request.query_params.get("last"))


def _is_of_worker(request: Request) -> Callable[[str], bool]:
    beginning = f"{request.path_params['taskmanagerid']}.log"
    return lambda name: name.startswith(beginning)


def _files(request: Request, is_wanted: Callable[[str], bool]) -> dict[str, Path]:
    """Return the files by name. If several jobs have files of the same name, the newest job's."""
    found: dict[str, Path] = {}
    for entry in jobs_of(request).all():
        if entry.log_folder is not None and entry.log_folder.is_dir():
            found |= {
                path.name: path
                for path in sorted(entry.log_folder.iterdir())
                if ".log" in path.name and is_wanted(path.name) and path.is_file()
            }
    return found


def listed(files: dict[str, Path]) -> dict[str, Any]:
    """List files by name, in Flink's form."""
    stats = []
    for name, path in files.items():
        with contextlib.suppress(FileNotFoundError):  # Logging has just rotated it.
            stats.append((name, path.stat()))
    return {"logs": [{"name": n, "size": stat.st_size, "mtime": int(stat.st_mtime * 1000)} for n, stat in stats]}


def text_answer(files: dict[str, Path], name: str, last: str | None = None) -> Response:
    """Send the text of one of these files, in its current length. Raises HTTPException: 400, 404.

    `last`: at most this many bytes, from its end; None: all.
    """
    if last is not None and not (last.isascii() and last.isdigit() and len(last) < 19):
        raise HTTPException(400, f"last must be a number of bytes, got '{last}'")
    # Looked up, never joined to a folder: a malicious path is not the name of a file in the list.
    if name not in files:
        raise HTTPException(404, f"This file does not exist: {name}")
    try:
        file = files[name].open("rb")
    except FileNotFoundError:
        raise HTTPException(404, f"This file no longer exists: {name}") from None
    # Up to the current length: a log grows while it is sent, and an answer must have the length that it has announced.
    size = os.fstat(file.fileno()).st_size
    if last is not None and int(last) < size:
        file.seek(size - int(last))
        size = int(last)
    headers = {"content-length": str(size)}
    return StreamingResponse(_beginning(file, size), headers=headers, media_type="text/plain; charset=utf-8")


def _beginning(file: IO[bytes], size: int) -> Iterator[bytes]:
    with file:
        while size and (chunk := file.read(min(size, _CHUNK_BYTES))):
            size -= len(chunk)
            yield chunk


routes = [
    get("/jobmanager/logs", driver_logs),
    DescribedRoute("/jobmanager/logs/{filename:path}", driver_log, query=[LAST], media_type=TEXT),
    DescribedRoute("/jobmanager/log", driver_log, query=[LAST], media_type=TEXT),
    DescribedRoute("/jobmanager/stdout", driver_log, query=[LAST], media_type=TEXT),
    get("/taskmanagers/{taskmanagerid}/logs", worker_logs),
    DescribedRoute("/taskmanagers/{taskmanagerid}/logs/{filename:path}", worker_log, query=[LAST], media_type=TEXT),
    DescribedRoute("/taskmanagers/{taskmanagerid}/log", worker_log, query=[LAST], media_type=TEXT),
    DescribedRoute("/taskmanagers/{taskmanagerid}/stdout", worker_log, query=[LAST], media_type=TEXT),
]
