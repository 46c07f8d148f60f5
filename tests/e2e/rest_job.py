"""A job that runs until it is stopped, and requests to its REST endpoint."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path
from typing import Any

JOB = """
    from penstock.common import WatermarkStrategy
    from penstock.connectors.base.data_generator import DataGeneratorSource
    from penstock.connectors.base.rate_limiter import RateLimiterStrategy
    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.functions import MapFunction

    class Seen(MapFunction):
        def open(self, runtime_context):
            self.counter = runtime_context.get_metrics_group().add_group("mine").counter("seen")

        def map(self, value):
            self.counter.inc()
            return value

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda i: i, 10_000_000, RateLimiterStrategy.per_second(500))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(Seen()).name("seen")
    numbers.key_by(lambda v: v % 2).reduce(max).name("highest").print()
    env.execute("highest numbers")
"""
_SECONDS = 120


class RestJob:
    """Started by `penstock run`. `url`, `token` and `job_id`: what it has said of itself."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.log = directory / "log"
        (directory / "job.py").write_text(textwrap.dedent(JOB))
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", "--rest-port", "0", "-p", "1"]
        interval = ("-D", "execution.checkpointing.interval=500ms")
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                [*command, *interval, *options, str(directory / "job.py")], stdout=file, stderr=file, text=True
            )
        found = self._until(lambda: re.search(r"^REST: (\S+), token in (\S+)$", self.log.read_text(), re.MULTILINE))
        self.url = found[1]
        self.token_file = Path(found[2]).expanduser()
        self.token = self.token_file.read_text()
        self.job_id = re.findall(r"^job ([0-9a-f]{32}) ", self.log.read_text(), re.MULTILINE)[0]
        self.path = f"/jobs/{self.job_id}"

    def until_it_runs(self) -> RestJob:
        """Wait until it has completed a checkpoint, and its source's counters are known."""

        def runs() -> bool:
            if not self.get("/jobs")["jobs"] or not self.get(f"{self.path}/checkpoints")["counts"]["completed"]:
                return False
            return bool(self.get(self.path)["vertices"][0]["metrics"]["write-records"])

        self._until(runs)
        return self

    def get(self, path: str) -> Any:
        return json.loads(self.text(path))

    def send(self, path: str, method: str, body: Any = None) -> Any:
        return json.loads(self.text(path, method, json.dumps(body).encode()))

    def text(self, path: str, method: str = "GET", body: bytes | None = None) -> str:
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}/v1{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            return str(answer.read().decode())

    def _until(self, is_so: Any) -> Any:
        deadline = time.monotonic() + _SECONDS
        while not (found := is_so()):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        return found
