"""The dashboards of this user that show all jobs of this machine: `penstock run` prints their address."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.common.files.cache_directory import cache_directory
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.hosts.live_process import is_alive, start_mark_of


class RunningDashboard(msgspec.Struct, frozen=True):
    """A dashboard. `beginning`: the mark of the process, as another process may get its id later."""

    pid: int
    url: str
    beginning: str = ""


def announce_dashboard(url: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Announce this process's pages. Return the file to delete when they end. Raises OSError."""
    folder = _folder(environ)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{os.getpid()}.json"
    path.write_bytes(msgspec.json.encode(RunningDashboard(os.getpid(), url, start_mark_of(os.getpid()))))
    return path


def dashboard_urls(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the URLs of running dashboards. Removes the files of killed processes."""
    found = []
    for path in sorted(_folder(environ).glob("*.json")):
        # It may have been removed, or be incomplete.
        with contextlib.suppress(OSError, *DECODING_ERRORS):
            one = from_json(path.read_bytes(), RunningDashboard)
            if is_alive(one.pid, one.beginning):
                found.append(one.url)
            else:
                path.unlink(missing_ok=True)
    return found


def _folder(environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "dashboards"
