"""`penstock logs --output`: print the standard output of a job of a cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.common.errors import JobError
from penstock.common.text.one_line import on_one_line
from penstock.service.cli.local_clusters import SubmittedJob, clients_of_clusters, submitted_as, submitted_to

if TYPE_CHECKING:
    from penstock.service.client.rest_client import RestClient

_EVERY_S = 0.3


def show_output(reference: str | None, follow: bool, address: str | None) -> None:
    """Print a job's output, of the newest job if `reference` is None; with `follow`, until the job has ended.

    `address` is HOST:PORT of the cluster; None means all clusters of this user on this machine. Raises PenstockError.
    """
    from penstock.service.client.remote_output import RemoteOutput

    job = _found(reference, *_clusters(address))
    output = RemoteOutput(job.cluster, job.state["id"])
    output.show()
    while follow:
        ends = job.cluster.get(f"/submissions/{job.state['id']}")["phase"] in ("ENDING", "ENDED")
        # Read again after the job has ended: it may have printed between the last read and its end.
        output.show()
        if ends:
            return
        time.sleep(_EVERY_S)


def _clusters(address: str | None) -> tuple[list[RestClient], list[str]]:
    from penstock.service.client.rest_client import RestClient

    if address is not None:
        return [RestClient.at(address)], []
    found, silent = clients_of_clusters()
    if not (found or silent):
        raise JobError(
            "no cluster is running on this machine. Name one on another machine with --cluster HOST:PORT. Output of a "
            "job without a cluster is only shown where the job was started"
        )
    return found, silent


def _found(reference: str | None, clusters: list[RestClient], silent: list[str]) -> SubmittedJob:
    """Return the job. Raises JobError unless exactly one matches. `silent`: why other clusters can't be reached."""
    jobs, unanswered = submitted_to(clusters)
    jobs.sort(key=lambda job: job.state["submitted_ms"])
    matching = jobs[-1:] if reference is None else submitted_as(reference, jobs)
    if len(matching) == 1:
        return matching[0]
    lines = [f"  {job.ids[0]}  {on_one_line(job.state['name'])}" for job in matching or jobs]
    if matching:
        problem = f"'{reference}' matches several jobs; name one by its id:"
    elif jobs:
        problem = f"no cluster on this machine has a job '{on_one_line(str(reference))}'. Known jobs:"
    else:
        problem = "no cluster on this machine has or had a job"
    raise JobError("\n".join([problem, *lines, *silent, *unanswered]))
