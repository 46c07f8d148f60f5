"""The archive of a job that has ended: the last answers of its REST endpoint, as Flink's history server keeps them.

Source: Flink docs, "History Server"; FsJobArchivist.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from penstock.common.errors import JobError, PenstockError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.service.client.rest_client import RestClient
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.atomic_files import write_reserved

_OF_JOB = (
    "", "/accumulators", "/checkpoints", "/checkpoints/config", "/config", "/exceptions", "/execution-result",
    "/jobmanager/config", "/plan", "/status",
)  # fmt: skip
_OF_VERTEX = (
    "", "/accumulators", "/backpressure", "/flamegraph", "/subtasks/accumulators", "/subtasktimes", "/taskmanagers",
    "/watermarks",
)  # fmt: skip
_OVERVIEW = "/jobs/overview"
_OVERVIEWS_MAX = 1_000
_ARCHIVES_MAX = 2
"""Decoded archives in memory: each may have tens of megabytes."""
_BY_SUBTASK_MAX = 10
"""Newest checkpoints kept by subtask: each takes hundreds of bytes for each of its subtasks."""
_BY_SUBTASK = "/subtasks/"
_log = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True):
    """The answer to one path."""

    path: str
    json: str


class Archive(msgspec.Struct, frozen=True):
    """The archive of one job, in Flink's format."""

    archive: list[Answer]

    def find(self, path: str) -> bytes | None:
        """Return the answer to a path, or None if it is not kept."""
        return next((answer.json.encode() for answer in self.archive if answer.path == path), None)


def archive(address: RestAddress, job_id: str, file: Path) -> None:
    """Archive what REST answers about a job that has ended.

    Raises nothing: the job itself does not need the archive.
    """
    try:
        answers = [Answer(path, msgspec.json.encode(value).decode()) for path, value in _read(address, job_id)]
        try:
            write_reserved(file, msgspec.json.encode(Archive(answers)))
        except OSError:
            # Reserve this much, so that a full disk still has room, whatever the parallelism of the job.
            write_reserved(file, msgspec.json.encode(Archive([a for a in answers if _BY_SUBTASK not in a.path])))
    except (OSError, ValueError, LookupError, PenstockError) as error:
        # Also for answers that are not JSON.
        _log.warning("cannot archive the ended job, so the cluster will show little of it: %s", error)


def read_archive(file: Path) -> Archive | None:
    """Read an archive; return None without one. Raises JobError, which names the file, if it can't be read.

    Keeps the latest ones decoded: a page makes a dozen requests for parts of one.
    """
    try:
        stat = file.stat()
        return _archive_in(file, stat.st_mtime_ns, stat.st_size)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JobError(f"cannot read the archive of the job, {file}: {error.strerror}") from None
    except DECODING_ERRORS as error:
        raise JobError(f"the archive of the job, {file}, is damaged: {error}") from None


@lru_cache(_ARCHIVES_MAX)
def _archive_in(file: Path, written_ns: int, size: int) -> Archive:
    return from_json(file.read_bytes(), Archive)


def read_overview(file: Path) -> bytes | None:
    """Return the answer to /jobs/overview, or None if it is not kept. Raises JobError if it can't be read.

    Separate from the archive, which is a thousand times as large: each viewer of a cluster requests the overview of all
    jobs every few seconds.
    """
    try:
        stat = file.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JobError(f"cannot read the archive of the job, {file}: {error.strerror}") from None
    return _overview_in(file, stat.st_mtime_ns, stat.st_size)


@lru_cache(_OVERVIEWS_MAX)
def _overview_in(file: Path, written_ns: int, size: int) -> bytes | None:
    kept = read_archive(file)
    return kept.find(_OVERVIEW) if kept is not None else None


def _read(address: RestAddress, job_id: str) -> Iterator[tuple[str, Any]]:
    client = RestClient(address.url, address.token())
    job = f"/jobs/{job_id}"
    overview = client.get(_OVERVIEW)
    yield _OVERVIEW, {"jobs": [one for one in overview["jobs"] if one["jid"] == job_id]}
    # A client may only now read the outcome of the savepoint with which it stopped the job.
    for kind, outcomes in client.get(f"{job}/triggers").items():
        for trigger_id, outcome in outcomes.items():
            yield f"{job}/{kind}/{trigger_id}", outcome
    yield f"{job}/history", client.get(f"{job}/history?range=all")
    details = {}
    for part in _OF_JOB:
        details[part] = client.get(job + part)
        yield job + part, details[part]
    for vertex in details[""]["vertices"]:
        path = f"{job}/vertices/{vertex['id']}"
        for part in _OF_VERTEX:
            answer = client.get(path + part)
            yield path + part, answer
            # Parts that each subtask answers for itself.
            for subtask in answer["subtasks"] if not part else ():
                yield f"{path}/subtasks/{subtask['subtask']}", subtask
                yield f"{path}/subtasks/{subtask['subtask']}/attempts/{subtask['attempt']}", subtask
        # In one request: a job that was restarted often has thousands.
        for earlier in client.get(f"{path}/earlier-attempts")["attempts"]:
            yield f"{path}/subtasks/{earlier['subtask']}/attempts/{earlier['attempt']}", earlier
    for place, checkpoint in enumerate(details["/checkpoints"].get("history", [])):
        path = f"{job}/checkpoints/details/{checkpoint['id']}"
        answer = client.get(path)
        yield path, answer
        for vertex_id in answer["tasks"] if place < _BY_SUBTASK_MAX else ():
            yield f"{path}/subtasks/{vertex_id}", client.get(f"{path}/subtasks/{vertex_id}")
