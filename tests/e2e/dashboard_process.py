"""`penstock dashboard`, started as a user would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

_SECONDS = 120


class DashboardProcess:
    """Of one REST endpoint. `url`, `token`: what it has said of itself."""

    def __init__(self, directory: Path, host: str, token: str) -> None:
        self.log = directory / "dashboard.log"
        command = [sys.executable, "-m", "penstock.service.cli.main", "dashboard", host, "--port", "0"]
        environment = os.environ | {"XDG_CACHE_HOME": str(directory), "PENSTOCK_REST_TOKEN": token}
        with self.log.open("w") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        until = time.monotonic() + _SECONDS
        while (said := re.search(r"^dashboard: (\S+), token in (.+)$", self.log.read_text(), re.MULTILINE)) is None:
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.1)
        self.url = said[1]
        self.token_file = Path(said[2]).expanduser()
        self.token = self.token_file.read_text()

    def close(self) -> None:
        """As Ctrl-C does."""
        self.process.terminate()
        self.process.wait(_SECONDS)
