"""The clusters of this user on this machine, as commands about their jobs ask them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.errors import JobError
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
    more = job["waiting"] or (job["error"].splitlines() or [""])[0]
    at = as_moment(job["submitted_ms"])
    line = f"{job['job_id'] or job['id']}  {at}  {shown:<9} {job['slots']:>4} slots  {on_one_line(job['name'])}"
    return f"{line}: {more}" if more else line
