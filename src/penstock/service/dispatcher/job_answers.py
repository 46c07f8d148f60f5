"""What is answered of one job of a cluster: by its process, by what that answered at its end, or by what is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote

import msgspec

from penstock.common.errors import JobError
from penstock.common.text.secrets import without_passwords
from penstock.service.client.rest_client import RestClient, UnreachableError
from penstock.service.dispatcher.archive import Archive, read_archive, read_overview
from penstock.service.dispatcher.dispatcher import DispatchedJob
from penstock.service.dispatcher.host import DispatcherHost
from penstock.service.dispatcher.job_store import ARCHIVE
from penstock.service.dispatcher.known_jobs import RESULT, id_of_job, known_of
from penstock.service.rest.job_paths import newest_failures

_ASK_S = 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: `path` is not quoted, and `query` is as it came."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""

    @property
    def target(self) -> str:
        """As it is sent on."""
        return f"{quote(self.path)}?{self.query}" if self.query else quote(self.path)


class JobAnswers:
    """Of one job. Each answer is a status of HTTP, and JSON."""

    def __init__(self, host: DispatcherHost, job: DispatchedJob) -> None:
        self._host = host
        self._job = job
        self._id = id_of_job(job)
        self._archive = host.store.folder(job.id) / ARCHIVE

    def overview(self, most_s: float) -> bytes | None:
        """What is answered to GET /jobs/overview; None: nothing, by then."""
        answered = self._of_process(Asked("GET", "/jobs/overview"), most_s)
        if answered is not None:
            return answered[1] if answered[0] == 200 else None
        try:
            return read_overview(self._archive)
        except JobError:
            return None

    def to(self, asked: Asked) -> tuple[int, bytes]:
        """To a request for a path below /jobs/:jobid. Raises HTTPException for a parameter that is none."""
        answered = self._of_process(asked, _ASK_S)
        if answered is not None:
            # A process that is about to serve its job does not know it yet.
            early = answered[0] == 404 and self._job.status is None and self._known(asked)
            return early or answered
        if self._job.status is None:
            text = f"Job {self._id} can't be asked: it is {self._job.phase.name.lower()}"
            return self._known(asked) or _error(404, text)
        if asked.method != "GET":
            return _error(409, f"Job {self._id} has ended: {self._job.status.name}")
        return self._of_ended(asked, self._job.status.name)

    def _of_process(self, asked: Asked, most_s: float) -> tuple[int, bytes] | None:
        """None: there is none, or no more."""
        rest = self._job.rest
        if rest is None:
            return None
        try:
            client = RestClient(rest.url, rest.token(), most_s)
            return client.answer(asked.method, asked.target, asked.body or None)
        except (OSError, UnreachableError) as error:
            if self._job.status is not None:
                return None
            # It is busy, or stopped, or has just ended, which is not known yet. Flink's clients ask again at 503.
            return _error(503, f"Job {self._id} does not answer: {error}")

    def _of_ended(self, asked: Asked, status: str) -> tuple[int, bytes]:
        try:
            kept = read_archive(self._archive)
        except JobError as error:
            return _error(404, f"Of job {self._id}, which has ended, this is not known: {error}")
        answer = _kept(kept, asked)
        # Where nothing was kept it has not come as far as to serve anything. How it has ended is known of each.
        if answer is None and (kept is None or self._part(asked) == RESULT):
            answer = self._known(asked)
        text = f"Of job {self._id}, which has ended ({status}), this is not known. {self._job.error}"
        return answer or _error(404, text.strip())

    def _known(self, asked: Asked) -> tuple[int, bytes] | None:
        known = known_of(self._host, self._job, self._part(asked)) if asked.method == "GET" else None
        return None if known is None else _found(known, asked)

    def _part(self, asked: Asked) -> str:
        return asked.path.removeprefix(f"/jobs/{self._id}")


def _kept(kept: Archive | None, asked: Asked) -> tuple[int, bytes] | None:
    answer = kept.find(asked.path) if kept is not None else None
    if answer is not None and asked.path.endswith("/exceptions"):
        return _found(msgspec.json.decode(answer), asked)
    if answer is None and kept is not None and asked.path.endswith("/metrics"):
        # Nothing is measured any more. As Flink answers for a job that has ended.
        answer = b"[]"
    return None if answer is None else (200, answer)


def _found(answer: Any, asked: Asked) -> tuple[int, bytes]:
    if asked.path.endswith("/exceptions"):
        answer = newest_failures(answer, parse_qs(asked.query).get("maxExceptions", [None])[0])
    return 200, msgspec.json.encode(answer)


def _error(status: int, text: str) -> tuple[int, bytes]:
    return status, msgspec.json.encode({"errors": [without_passwords(text)]})
