"""Answers about one job of a cluster: from its process, from its archive, or from what the dispatcher knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote

import msgspec

from penstock.common.errors import JobError
from penstock.common.text.secrets import without_secrets
from penstock.service.client.rest_client import RestClient, UnreachableError
from penstock.service.dispatcher.archive import Archive, read_archive, read_overview
from penstock.service.dispatcher.dispatcher import DispatchedJob
from penstock.service.dispatcher.host import DispatcherHost
from penstock.service.dispatcher.job_store import ARCHIVE
from penstock.service.dispatcher.known_jobs import RESULT, id_of_job, known_of
from penstock.service.rest.job_paths import newest_failures

_ASK_S = 10.0


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A request: `path` is unquoted, and `query` as it was received."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""

    @property
    def target(self) -> str:
        """The path and query for forwarding."""
        return f"{quote(self.path)}?{self.query}" if self.query else quote(self.path)


class JobAnswers:
    """Answer requests about one job. Each answer is an HTTP status and JSON."""

    def __init__(self, host: DispatcherHost, job: DispatchedJob) -> None:
        self._host = host
        self._job = job
        self._id = id_of_job(job)
        self._archive = host.store.folder(job.id) / ARCHIVE

    def overview(self, most_s: float) -> bytes | None:
        """Return the answer to GET /jobs/overview, or None if there is none within `most_s`."""
        answered = self._of_process(JobRequest("GET", "/jobs/overview"), most_s)
        if answered is not None:
            return answered[1] if answered[0] == 200 else None
        try:
            return read_overview(self._archive)
        except JobError:
            return None

    def answer(self, request: JobRequest) -> tuple[int, bytes]:
        """Answer a request for a path below /jobs/:jobid. Raises HTTPException for an invalid parameter."""
        answered = self._of_process(request, _ASK_S)
        if answered is not None:
            # A process that is about to serve its job does not know it yet.
            early = answered[0] == 404 and self._job.status is None and self._known(request)
            return early or answered
        if self._job.status is None:
            text = f"Job {self._id} does not serve requests: it is {self._job.phase.name.lower()}"
            return self._known(request) or _error(404, text)
        if request.method != "GET":
            return _error(409, f"Job {self._id} has ended: {self._job.status.name}")
        return self._of_ended(request, self._job.status.name)

    def _of_process(self, request: JobRequest, most_s: float) -> tuple[int, bytes] | None:
        """Return the answer of the job's process, or None if there is none, or no longer."""
        rest = self._job.rest
        if rest is None:
            return None
        try:
            client = RestClient(rest.url, rest.token(), most_s)
            return client.answer(request.method, request.target, request.body or None)
        except (OSError, UnreachableError) as error:
            if self._job.status is not None:
                return None
            # The process is busy or suspended, or has just ended unnoticed. Flink's clients retry after 503.
            return _error(503, f"Job {self._id} does not answer: {error}")

    def _of_ended(self, request: JobRequest, status: str) -> tuple[int, bytes]:
        try:
            kept = read_archive(self._archive)
        except JobError as error:
            return _error(404, f"This is unknown about job {self._id}, which has ended: {error}")
        answer = _kept(kept, request)
        # A job without an archive ended before it could serve anything. Its result is always known.
        if answer is None and (kept is None or self._part(request) == RESULT):
            answer = self._known(request)
        text = f"This is unknown about job {self._id}, which has ended ({status}). {self._job.error}"
        return answer or _error(404, text.strip())

    def _known(self, request: JobRequest) -> tuple[int, bytes] | None:
        known = known_of(self._host, self._job, self._part(request)) if request.method == "GET" else None
        return None if known is None else _found(known, request)

    def _part(self, request: JobRequest) -> str:
        return request.path.removeprefix(f"/jobs/{self._id}")


def _kept(kept: Archive | None, request: JobRequest) -> tuple[int, bytes] | None:
    answer = kept.find(request.path) if kept is not None else None
    if answer is not None and request.path.endswith("/exceptions"):
        return _found(msgspec.json.decode(answer), request)
    if answer is None and kept is not None and request.path.endswith("/metrics"):
        # Metrics end with the job. Flink answers the same for a job that has ended.
        answer = b"[]"
    return None if answer is None else (200, answer)


def _found(answer: Any, request: JobRequest) -> tuple[int, bytes]:
    if request.path.endswith("/exceptions"):
        answer = newest_failures(answer, parse_qs(request.query).get("maxExceptions", [None])[0])
    return 200, msgspec.json.encode(answer)


def _error(status: int, text: str) -> tuple[int, bytes]:
    return status, msgspec.json.encode({"errors": [without_secrets(text)]})
