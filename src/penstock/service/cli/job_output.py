"""`penstock logs --output`: what a job of a cluster has printed, which no terminal may have shown."""

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
    """Write it to standard output; `follow`: until the job has ended. None: the newest job.

    `address`: of its cluster, HOST:PORT; None: it is one of this user on this machine. Raises PenstockError.
    """
    from penstock.service.client.remote_output import RemoteOutput

    job = _found(reference, *_clusters(address))
    output = RemoteOutput(job.cluster, job.state["id"])
    output.show()
    while follow:
        ends = job.cluster.get(f"/submissions/{job.state['id']}")["phase"] in ("ENDING", "ENDED")
        # What it has printed before it ended is fetched once more after that was seen.
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
            "no cluster is running on this machine. What a job prints that is of no cluster is shown where it was "
            "started, and kept nowhere; for a cluster elsewhere: --cluster HOST:PORT"
        )
    return found, silent


def _found(reference: str | None, clusters: list[RestClient], silent: list[str]) -> SubmittedJob:
    """Raises JobError unless it is one. `silent`: why other clusters can't be asked."""
    jobs, unanswered = submitted_to(clusters)
    jobs.sort(key=lambda job: job.state["submitted_ms"])
    matching = jobs[-1:] if reference is None else submitted_as(reference, jobs)
    if len(matching) == 1:
        return matching[0]
    lines = [f"  {job.ids[0]}  {on_one_line(job.state['name'])}" for job in matching or jobs]
    if matching:
        told = f"'{reference}' is the name or the beginning of several jobs; name one by its id:"
    elif jobs:
        told = f"no cluster on this machine has a job '{on_one_line(str(reference))}'. There are:"
    else:
        told = "no cluster on this machine has or had a job"
    raise JobError("\n".join([told, *lines, *silent, *unanswered]))
