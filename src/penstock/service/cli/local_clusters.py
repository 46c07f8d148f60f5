"""The clusters of this user on this machine, as commands about their jobs ask them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.errors import JobError, PenstockError
from penstock.common.errors.raised_line import raised_line
from penstock.common.text.one_line import on_one_line
from penstock.common.text.quantities import as_moment
from penstock.service.cluster.job_reference import is_named, referred_to

if TYPE_CHECKING:
    from penstock.service.client.rest_client import RestClient
    from penstock.service.cluster.running_jobs import RunningJob


_ANSWER_S = 5.0
"""One that was stopped does not hold up what is said of the others."""


def clients_of_clusters() -> tuple[list[RestClient], list[str]]:
    """One of each that takes jobs; and of those that can't be asked, why."""
    # Imported here, not at the top: `penstock --help` is to answer at once.
    from penstock.service.client.rest_client import RestClient
    from penstock.service.cluster.running_cluster import running_clusters

    found, silent = [], []
    for one in running_clusters():
        if one.rest is not None:
            try:
                found.append(RestClient(one.rest.url, one.rest.token(), _ANSWER_S))
            except OSError as error:
                silent.append(f"the cluster with the jobs in {one.directory} can't be asked: {error}")
    return found, silent


@dataclass(frozen=True)
class SubmittedJob:
    """A job, as its cluster has answered it, and a client of the cluster."""

    cluster: RestClient
    state: dict[str, Any]

    @property
    def ids(self) -> list[str]:
        """Its own, which it has once it has begun, and that of its submission."""
        return [id for id in (self.state["job_id"], self.state["id"]) if id]


def submitted_to(clusters: list[RestClient]) -> tuple[list[SubmittedJob], list[str]]:
    """All jobs that clusters know; and of those that do not answer, what they say."""
    jobs, silent = [], []
    for cluster in clusters:
        try:
            jobs += [SubmittedJob(cluster, state) for state in cluster.get("/submissions")]
        except PenstockError as error:
            silent.append(str(error))
    return jobs, silent


def submitted_jobs() -> tuple[list[SubmittedJob], list[str]]:
    """All jobs that the clusters of this user know; and of those that can't be asked, or do not answer, why."""
    clients, silent = clients_of_clusters()
    jobs, unanswered = submitted_to(clients)
    return jobs, [*silent, *unanswered]


def submitted_as(reference: str, jobs: list[SubmittedJob]) -> list[SubmittedJob]:
    """Those that a command names so."""
    return referred_to(reference, jobs, lambda job: job.state["name"], lambda job: job.ids)


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


def cancel_before_it_runs(reference: str, another_runs: bool = False) -> bool:
    """Cancel the job of a cluster with this name, or this beginning of its id, which takes no commands yet.

    False: there is none. Raises JobError if there are several, or a cluster that can't be asked may have it.
    `another_runs`: one whose id begins so. Then it is only that of exactly this name.
    """
    found, silent = _to_begin(reference, another_runs)
    if len(found) > 1:
        lines = [f"  {job.ids[0]}  {on_one_line(job.state['name'])}" for job in found]
        told = f"'{on_one_line(reference)}' is the name or the beginning of several jobs that wait; name one by its id:"
        raise JobError("\n".join([told, *lines]))
    if found:
        found[0].cluster.ask("PATCH", f"/submissions/{found[0].state['id']}")
    elif silent:
        told = f"no job '{on_one_line(reference)}' runs on this machine. Whether one waits in a cluster is not known:"
        raise JobError("\n".join([told, *silent]))
    return bool(found)


def running_job(reference: str) -> RunningJob:
    """The job of this machine with this id, prefix of an id, or name. Raises JobError: of one that waits, for what."""
    from penstock.service.cluster.running_jobs import JobRegistry

    registry = JobRegistry()
    running = registry.named(reference)
    if any(is_named(reference, job.name, (job.job_id,)) for job in running):
        return registry.find(reference)
    found, silent = _to_begin(reference, another_runs=bool(running))
    if found:
        told = "takes no commands yet. penstock list -s shows when it begins, penstock cancel takes it back:"
        lines = [
            f"  {job.ids[0]}  {on_one_line(job.state['name'])}: {job.state['waiting'] or 'begins now'}" for job in found
        ]
        raise JobError("\n".join([f"'{on_one_line(reference)}' {told}", *lines]))
    try:
        return registry.find(reference)
    except JobError as error:
        if not silent:
            raise
        raise JobError("\n".join([f"{error}. Whether one waits in a cluster is not known:", *silent])) from None


def told_of_those_that_wait() -> str:
    """What is to be said where no job runs: that some are to begin, or that it is not known. Empty: nothing."""
    jobs, silent = submitted_jobs()
    begin = sum(is_to_begin(job.state) for job in jobs)
    told = [f"{begin} {'is' if begin == 1 else 'are'} to begin in a cluster: penstock list -s"] if begin else []
    told += [f"Whether one waits in a cluster is not known: {why}" for why in silent]
    return "".join(f". {each}" for each in told)


def _to_begin(reference: str, another_runs: bool) -> tuple[list[SubmittedJob], list[str]]:
    """The jobs that are named so, and take no commands yet; and of clusters that can't be asked, why.

    `another_runs`: one whose id begins so. Before that goes only the name of one that waits, as far as is known.
    """
    jobs, silent = submitted_jobs()
    found = submitted_as(reference, [job for job in jobs if job.state["phase"] in ("QUEUED", "STARTING")])
    if another_runs:
        return [job for job in found if is_named(reference, job.state["name"], job.ids)], []
    return found, silent


def _gist_of(error: str) -> str:
    """Of a traceback what was raised, behind the line that says where."""
    first = error.partition("\n")[0]
    raised = raised_line(error)
    if not raised:
        return first
    before, traceback, _ = first.partition("Traceback (most recent call last):")
    return before + raised if traceback else f"{first}: {raised}"
