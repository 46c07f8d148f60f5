"""Takes the pictures of the dashboard for the manual, in headless Chromium: pages about manual/job_of_dashboard.py.

python -m manual.pictures_of_dashboard docs/images
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.browser import Browser
from tests.e2e.dashboard_process import DashboardProcess

from penstock.common.errors import PenstockError
from penstock.service.client.rest_client import RestClient

_JOB = Path(__file__).with_name("job_of_dashboard.py")
_PORT = "8099"
_SETTINGS = ("metrics.latency.interval=500ms", "restart-strategy.type=fixed-delay")
_CHECKPOINTS = 24
"""So many are to be in the chart."""
_DEADLINE_S = 600.0
_SETTLES_S = 4.0
_WIDE, _WIDE_AND_HIGH, _NARROW = (1200, 780), (1000, 880), (390, 1400)


def pictures(folder: Path) -> None:
    """Run the job until there is something to see, and write the pictures. Raises SystemExit if it does not run."""
    with tempfile.TemporaryDirectory() as work:
        given = [part for one in (*_SETTINGS, f"execution.checkpointing.dir={work}") for part in ("-D", one)]
        # By its name alone, which is in tracebacks.
        shutil.copy(_JOB, work)
        command = [
            sys.executable,
            "-m",
            "penstock.service.cli.main",
            "run",
            "-q",
            "--rest-port",
            _PORT,
            *given,
            _JOB.name,
        ]
        job = subprocess.Popen(command, cwd=work)
        try:
            client, job_id = _until_it_has_checkpoints()
            dashboard = DashboardProcess(Path(work), client.url.removeprefix("http://"), _token())
            try:
                _take(dashboard, job_id, folder)
            finally:
                dashboard.close()
        finally:
            job.terminate()
            job.wait()


def _until_it_has_checkpoints() -> tuple[RestClient, str]:
    until = time.monotonic() + _DEADLINE_S
    while time.monotonic() < until:
        try:
            client = RestClient.at(f"127.0.0.1:{_PORT}")
            for job in client.get("/jobs/overview")["jobs"]:
                counts: dict[str, Any] = client.get(f"/jobs/{job['jid']}/checkpoints")["counts"]
                if counts["completed"] >= _CHECKPOINTS:
                    return client, job["jid"]
        except PenstockError:
            pass
        time.sleep(1)
    raise SystemExit(f"the job has not taken {_CHECKPOINTS} checkpoints within {_DEADLINE_S:.0f} s")


def _token() -> str:
    from penstock.common.files.cache_directory import cache_directory

    return (cache_directory(os.environ) / "rest" / f"{_PORT}.token").read_text()


def _take(dashboard: DashboardProcess, job_id: str, folder: Path) -> None:
    browser = Browser()
    try:
        browser.log_in(dashboard.url, dashboard.token)
        browser.wait_for("orders")
        for name, tab, size in (
            ("graph", "subtasks", _WIDE),
            ("checkpoints", "checkpoints", _WIDE_AND_HIGH),
            ("phone", "exceptions", _NARROW),
        ):
            browser.resize(*size)
            browser.open(f"{dashboard.url}/job/{job_id}?tab={tab}")
            browser.wait_for("orders", "behind")
            # Rates are means of some seconds; charts are drawn when their size is known.
            time.sleep(_SETTLES_S)
            browser.picture(folder / f"dashboard-{name}.png")
    finally:
        browser.close()


if __name__ == "__main__":
    pictures(Path(sys.argv[1]))
