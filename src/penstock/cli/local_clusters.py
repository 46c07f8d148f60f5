"""The clusters of this user on this machine, as commands about their jobs ask them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from penstock.common.errors import JobError, PenstockError
from penstock.common.one_line import on_one_line
from penstock.common.quantities import as_moment

if TYPE_CHECKING:
    from penstock.client.rest_client import RestClient


def clients_of_clusters() -> list[RestClient]:
    """One of each that takes jobs. Raises JobError if one can't be asked."""
    # Imported here, not at the top: `penstock --help` is to answer at once.
    from penstock.client.rest_client import RestClient
    from penstock.cluster.running_cluster import running_clusters

    found = []
    for one in running_clusters():
        if one.rest is not None:
            try:
                found.append(RestClient(one.rest.url, one.rest.token()))
            except OSError as error:
                raise JobError(f"the cluster with the jobs in {one.directory} can't be asked: {error}") from None
    return found


def job_line(job: dict[str, Any]) -> str:
    """A job as its cluster has answered it: id, when it was submitted, how it is, slots, name, and why it is so."""
    shown = (job["status"] or job["phase"]).lower()
    more = job["waiting"] or _gist_of(job["error"])
    at = as_moment(job["submitted_ms"])
    line = f"{job['job_id'] or job['id']}  {at}  {shown:<9} {job['slots']:>4} slots  {on_one_line(job['name'])}"
    return f"{line}: {more}" if more else line


def is_to_begin(job: dict[str, Any]) -> bool:
    """Whether a job, as its cluster has answered it, waits for slots, or asks its sources and sinks."""
    return bool(job["waiting"] or (job["phase"] == "STARTING" and not job["job_id"]))


def cancel_before_it_runs(reference: str) -> bool:
    """Cancel the job of a cluster with this name, or this beginning of its id, which takes no commands yet.

    False: there is none, or there are several.
    """
    found = []
    with contextlib.suppress(PenstockError):
        for client in clients_of_clusters():
            for job in client.get("/submissions"):
                id = job["job_id"] or job["id"]
                is_meant = job["name"] == reference or (reference.strip() and id.startswith(reference.lower()))
                if is_meant and job["phase"] in ("QUEUED", "STARTING"):
                    found.append((client, job["id"]))
        if len(found) == 1:
            client, id = found[0]
            client.ask("PATCH", f"/submissions/{id}")
            return True
    return False


def _gist_of(error: str) -> str:
    """The line of an error that says most: of a traceback the one with what was raised."""
    first, *others = error.splitlines() or [""]
    before, traceback, _ = first.partition("Traceback (most recent call last):")
    raised = [line for line in others if line[:1].strip()]
    return before + raised[-1] if traceback and raised else first
