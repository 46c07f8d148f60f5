"""Find the clusters of this user on this machine, and their jobs, for commands about jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.errors import JobError, JobNotRunningError, PenstockError
from penstock.common.errors.user_traceback import raised_line
from penstock.common.text.one_line import on_one_line
from penstock.common.text.quantities import as_moment
from penstock.service.cluster.job_reference import is_named, matching_jobs

if TYPE_CHECKING:
    from penstock.service.client.rest_client import RestClient
    from penstock.service.cluster.running_jobs import RunningJob


_ANSWER_S = 5.0
"""How long a cluster may take to answer. One that is suspended must not delay the answers of the others."""


def clients_of_clusters() -> tuple[list[RestClient], list[str]]:
    """Return a client for each cluster that accepts jobs, and the reasons why others can't be reached."""
    # Imported here, so that `penstock --help` stays fast.
    from penstock.service.client.rest_client import RestClient
    from penstock.service.cluster.running_cluster import running_clusters

    found, silent = [], []
    for one in running_clusters():
        if one.rest is not None:
            try:
                found.append(RestClient(one.rest.url, one.rest.token(), _ANSWER_S))
            except OSError as error:
                silent.append(f"cannot reach the cluster with the jobs in {one.directory}: {error}")
    return found, silent


@dataclass(frozen=True)
class SubmittedJob:
    """A job as its cluster describes it, and a client of the cluster."""

    cluster: RestClient
    state: dict[str, Any]

    @property
    def ids(self) -> list[str]:
        """The id of the job, which it gets when it starts, and the id of its submission."""
        return [id for id in (self.state["job_id"], self.state["id"]) if id]


def submitted_to(clusters: list[RestClient]) -> tuple[list[SubmittedJob], list[str]]:
    """Return all jobs of these clusters, and the errors of clusters that do not answer."""
    jobs, silent = [], []
    for cluster in clusters:
        try:
            jobs += [SubmittedJob(cluster, state) for state in cluster.get("/submissions")]
        except PenstockError as error:
            silent.append(str(error))
    return jobs, silent


def submitted_jobs() -> tuple[list[SubmittedJob], list[str]]:
    """Return all jobs of this user's clusters, and the reasons why some clusters can't be reached or do not answer."""
    clients, silent = clients_of_clusters()
    jobs, unanswered = submitted_to(clients)
    return jobs, [*silent, *unanswered]


def submitted_as(reference: str, jobs: list[SubmittedJob]) -> list[SubmittedJob]:
    """Return the jobs that `reference` names: by name, id, or prefix of an id."""
    return matching_jobs(reference, jobs, lambda job: job.state["name"], lambda job: job.ids)


def job_line(job: dict[str, Any]) -> str:
    """Format a job as its cluster describes it: id, time of submission, status, slots, name, and the reason."""
    shown = (job["status"] or job["phase"]).lower()
    more = job["waiting"] or _summary_of(job["error"])
    at = as_moment(job["submitted_ms"])
    line = f"{job['job_id'] or job['id']}  {at}  {shown:<9} {job['slots']:>4} slots  {on_one_line(job['name'])}"
    return f"{line}: {more}" if more else line


def has_not_started(job: dict[str, Any]) -> bool:
    """Return whether a job waits for slots, or is starting and has no id yet."""
    return bool(job["waiting"] or (job["phase"] == "STARTING" and not job["job_id"]))


def cancel_waiting_job(reference: str, another_runs: bool = False) -> bool:
    """Cancel the job of a cluster that has this name, or this prefix of an id, and accepts no commands yet.

    Return False if there is no such job. Raises JobError if there are several, or if a cluster that can't be reached
    may have it. With `another_runs`, a running job has this prefix: then only a job with exactly this name counts.
    """
    found, silent = _to_begin(reference, another_runs)
    if len(found) > 1:
        lines = [f"  {job.ids[0]}  {on_one_line(job.state['name'])}" for job in found]
        several = f"'{on_one_line(reference)}' matches several waiting jobs; name one by its id:"
        raise JobError("\n".join([several, *lines]))
    if found:
        found[0].cluster.request("PATCH", f"/submissions/{found[0].state['id']}")
    elif silent:
        missing = f"no job '{on_one_line(reference)}' runs on this machine. One may be waiting in a cluster:"
        raise JobError("\n".join([missing, *silent]))
    return bool(found)


def running_job(reference: str) -> RunningJob:
    """Find the running job of this machine with this id, prefix of an id, or name.

    Raises JobError if there is none; for a job that waits, the error says for what.
    """
    from penstock.service.cluster.running_jobs import JobRegistry

    registry = JobRegistry()
    running = registry.named(reference)
    if any(is_named(reference, job.name, (job.job_id,)) for job in running):
        return registry.find(reference)
    found, silent = _to_begin(reference, another_runs=bool(running))
    if found:
        waits = "accepts no commands yet. penstock list -s shows when it starts, penstock cancel withdraws it:"
        lines = [
            f"  {job.ids[0]}  {on_one_line(job.state['name'])}: {job.state['waiting'] or 'starts now'}" for job in found
        ]
        raise JobNotRunningError("\n".join([f"'{on_one_line(reference)}' {waits}", *lines]))
    try:
        return registry.find(reference)
    except JobError as error:
        if not silent:
            raise
        raise JobError("\n".join([f"{error}. One may be waiting in a cluster:", *silent])) from None


def hint_at_waiting_jobs() -> str:
    """Return what to add to "no job runs": that jobs wait in a cluster, or may; or an empty text."""
    jobs, silent = submitted_jobs()
    begin = sum(has_not_started(job.state) for job in jobs)
    hints = [f"{begin} job{' waits' if begin == 1 else 's wait'} in a cluster: penstock list -s"] if begin else []
    hints += [f"One may be waiting in a cluster: {why}" for why in silent]
    return "".join(f". {hint}" for hint in hints)


def _to_begin(reference: str, another_runs: bool) -> tuple[list[SubmittedJob], list[str]]:
    """Return the jobs with this reference that accept no commands yet, and why some clusters can't be reached.

    With `another_runs`, a running job has this prefix of an id; then only a waiting job's full name or id counts.
    """
    jobs, silent = submitted_jobs()
    found = submitted_as(reference, [job for job in jobs if job.state["phase"] in ("QUEUED", "STARTING")])
    if another_runs:
        return [job for job in found if is_named(reference, job.state["name"], job.ids)], []
    return found, silent


def _summary_of(error: str) -> str:
    """Shorten an error to its first line; of a traceback, to where it occurred and what was raised."""
    first = error.partition("\n")[0]
    raised = raised_line(error)
    if not raised:
        return first
    before, traceback, _ = first.partition("Traceback (most recent call last):")
    return before + raised if traceback else f"{first}: {raised}"
