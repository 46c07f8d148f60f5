"""Logs: which files a job's folder has, and their text. A file is sent only if it is in the list."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.rest.answers import get, jobs_of
from penstock.rest.described_route import TEXT, DescribedRoute

_WORKER = "level-"
_DRIVER = "driver.log"
_CHUNK_BYTES = 1 << 16


def driver_logs(request: Request) -> dict[str, Any]:
    """GET /jobmanager/logs: which logs there are: the driver's, and that of Spark's JVM."""
    return _listed(_files(request, lambda name: not name.startswith(_WORKER)))


def worker_logs(request: Request) -> dict[str, Any]:
    """GET /taskmanagers/:taskmanagerid/logs: which logs a worker has."""
    return _listed(_files(request, _is_of_worker(request)))


async def driver_log(request: Request) -> Response:
    """GET /jobmanager/log, /jobmanager/logs/:filename: the text of a log of the driver."""
    name = request.path_params.get("filename", _DRIVER)
    return _text(_files(request, lambda other: not other.startswith(_WORKER)), name)


async def worker_log(request: Request) -> Response:
    """GET /taskmanagers/:taskmanagerid/log, /stdout, /logs/:filename: what functions print is in the log."""
    name = request.path_params.get("filename", f"{request.path_params['taskmanagerid']}.log")
    return _text(_files(request, _is_of_worker(request)), name)


def _is_of_worker(request: Request) -> Callable[[str], bool]:
    beginning = f"{request.path_params['taskmanagerid']}.log"
    return lambda name: name.startswith(beginning)


def _files(request: Request, is_wanted: Callable[[str], bool]) -> dict[str, Path]:
    """By name. Of several jobs' files with one name the newest job's."""
    found: dict[str, Path] = {}
    for entry in jobs_of(request).all():
        if entry.log_folder is not None and entry.log_folder.is_dir():
            found |= {
                path.name: path
                for path in sorted(entry.log_folder.iterdir())
                if ".log" in path.name and is_wanted(path.name) and path.is_file()
            }
    return found


def _listed(files: dict[str, Path]) -> dict[str, Any]:
    stats = []
    for name, path in files.items():
        with contextlib.suppress(FileNotFoundError):  # a log that was full has made room for the next one
            stats.append((name, path.stat()))
    return {"logs": [{"name": n, "size": stat.st_size, "mtime": int(stat.st_mtime * 1000)} for n, stat in stats]}


def _text(files: dict[str, Path], name: str) -> Response:
    # Looked up, never joined to a folder: whatever a path tries, it is not the name of a file in the list.
    if name not in files:
        raise HTTPException(404, f"This file does not exist: {name}")
    try:
        file = files[name].open("rb")
    except FileNotFoundError:
        raise HTTPException(404, f"This file does not exist any more: {name}") from None
    # As long as it is now: a log grows while it is sent, and an answer has the length that it has announced.
    size = os.fstat(file.fileno()).st_size
    headers = {"content-length": str(size)}
    return StreamingResponse(_beginning(file, size), headers=headers, media_type="text/plain; charset=utf-8")


def _beginning(file: IO[bytes], size: int) -> Iterator[bytes]:
    with file:
        while size and (chunk := file.read(min(size, _CHUNK_BYTES))):
            size -= len(chunk)
            yield chunk


routes = [
    get("/jobmanager/logs", driver_logs),
    DescribedRoute("/jobmanager/logs/{filename:path}", driver_log, media_type=TEXT),
    DescribedRoute("/jobmanager/log", driver_log, media_type=TEXT),
    DescribedRoute("/jobmanager/stdout", driver_log, media_type=TEXT),
    get("/taskmanagers/{taskmanagerid}/logs", worker_logs),
    DescribedRoute("/taskmanagers/{taskmanagerid}/logs/{filename:path}", worker_log, media_type=TEXT),
    DescribedRoute("/taskmanagers/{taskmanagerid}/log", worker_log, media_type=TEXT),
    DescribedRoute("/taskmanagers/{taskmanagerid}/stdout", worker_log, media_type=TEXT),
]
