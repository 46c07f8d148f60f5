"""The clusters of this user that run on this machine, as commands find them: files in the user's cache directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.files.cache_directory import cache_directory
from penstock.common.values.decoding import from_json
from penstock.service.cluster.live_process import beginning_of, is_alive
from penstock.service.cluster.rest_address import RestAddress

LOG = "cluster.log"
"""The name of a cluster's log, in the directory of its jobs."""


class RunningCluster(msgspec.Struct, frozen=True):
    """One process of a cluster. `directory`: of its jobs. `rest`: None if it stands by for another one."""

    pid: int
    directory: str
    rest: RestAddress | None
    beginning: str = ""
    """Of the process, which `announce` notes: another one may have its number later."""


def _folder(environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "clusters"


def announce(cluster: RunningCluster, environ: Mapping[str, str] = os.environ) -> None:
    """Let commands find it."""
    folder = _folder(environ)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = folder / f".{cluster.pid}"
    part.write_bytes(msgspec.json.encode(msgspec.structs.replace(cluster, beginning=beginning_of(cluster.pid))))
    part.rename(folder / f"{cluster.pid}.json")


def withdraw(pid: int, environ: Mapping[str, str] = os.environ) -> None:
    """It ends."""
    (_folder(environ) / f"{pid}.json").unlink(missing_ok=True)


def running_clusters(environ: Mapping[str, str] = os.environ) -> list[RunningCluster]:
    """All that run or stand by. Files of those that were killed are removed."""
    found = []
    for path in sorted(_folder(environ).glob("*.json")):
        with contextlib.suppress(OSError, *UNREADABLE):
            cluster = from_json(path.read_bytes(), RunningCluster)
            if is_alive(cluster.pid, cluster.beginning):
                found.append(cluster)
            else:
                path.unlink(missing_ok=True)
    return found
