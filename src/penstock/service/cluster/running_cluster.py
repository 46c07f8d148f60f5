"""The clusters of this user that run on this machine, which commands find by files in the user's cache directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.common.files.cache_directory import cache_directory
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.hosts.live_process import is_alive, start_mark_of
from penstock.service.cluster.rest_address import RestAddress

LOG = "cluster.log"
"""The name of a cluster's log, in the directory of its jobs."""


class RunningCluster(msgspec.Struct, frozen=True):
    """A process of a cluster. `directory`: of the jobs. `rest`: None for a standby."""

    pid: int
    directory: str
    rest: RestAddress | None
    beginning: str = ""
    """The mark of the process, set by `announce`: another process may get its id later."""


def _folder(environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "clusters"


def announce(cluster: RunningCluster, environ: Mapping[str, str] = os.environ) -> None:
    """Announce the process to commands."""
    folder = _folder(environ)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = folder / f".{cluster.pid}"
    part.write_bytes(msgspec.json.encode(msgspec.structs.replace(cluster, beginning=start_mark_of(cluster.pid))))
    part.rename(folder / f"{cluster.pid}.json")


def withdraw(pid: int, environ: Mapping[str, str] = os.environ) -> None:
    """Remove the announcement."""
    (_folder(environ) / f"{pid}.json").unlink(missing_ok=True)


def running_clusters(environ: Mapping[str, str] = os.environ) -> list[RunningCluster]:
    """Return all that run or stand by. Removes the files of killed processes."""
    found = []
    for path in sorted(_folder(environ).glob("*.json")):
        with contextlib.suppress(OSError, *DECODING_ERRORS):
            cluster = from_json(path.read_bytes(), RunningCluster)
            if is_alive(cluster.pid, cluster.beginning):
                found.append(cluster)
            else:
                path.unlink(missing_ok=True)
    return found
