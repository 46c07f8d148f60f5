"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, on the loopback.

What a program does on a cluster can be tried with it before there is one: executors that register late, that have
another working directory and see nothing of the program's folder, that are lost and replaced.

    python -m penstock.testing.standalone_cluster --workers 2 --cores 4

It starts what PySpark's own package brings, on the Java that penstock would take for a job. It is no cluster for
production: any user of this machine can submit to it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer

from penstock.common.errors import ConfigurationError
from penstock.spark.driver.java import find_java, quiet_home

_HOST = "127.0.0.1"
_START_SECONDS = 90.0
_END_SECONDS = 20.0
_MASTER_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE_STARTED = re.compile(r"Bound MasterWebUI to \S+, and started at http://[^:\s]+:(\d+)")
_WORKER_STARTED = re.compile(r"Successfully registered with master")
_DAEMON_MEMORY = "512m"


class StandaloneCluster:
    """A master and `workers` workers of `cores` slots each, from `with` on until its block ends.

    `memory`: what the executors of one worker have together, as Spark writes it. `environment`: variables that workers
    and executors see; None: those of this process. Logs and the executors' working directories are below a temporary
    directory, which is removed at the end.
    """

    def __init__(
        self, workers: int = 2, cores: int = 4, memory: str = "4g", environment: dict[str, str] | None = None
    ) -> None:
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._environment = dict(os.environ if environment is None else environment)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.directory = Path()
        self.url = ""
        """For `spark.master`: spark://127.0.0.1:PORT."""
        self.page_port = 0
        """Port of the master's page, on which Spark shows workers and applications; for `spark.master.ui.port`."""

    def __enter__(self) -> StandaloneCluster:
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-standalone-"))
        try:
            log = self._start("master", "org.apache.spark.deploy.master.Master", "--webui-port", "0")
            self.url = self._await("master", log, _MASTER_STARTED)
            self.page_port = int(self._await("master", log, _PAGE_STARTED))
            logs = {name: self.start_worker(name) for name in map("worker-{}".format, range(self._workers))}
            for name, log in logs.items():
                self._await(name, log, _WORKER_STARTED)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_worker(self, name: str) -> Path:
        """Start one more worker, and return its log. It registers some seconds later."""
        work = self.directory / name
        work.mkdir()
        options = ["--webui-port", "0", "--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(work)]
        return self._start(name, "org.apache.spark.deploy.worker.Worker", *options, self.url)

    def state(self) -> dict[str, Any]:
        """What the master knows: its `workers`, `activeapps`, `cores`, `coresused` and more, as its page has it."""
        with urllib.request.urlopen(f"http://{_HOST}:{self.page_port}/json/") as answer:
            state: dict[str, Any] = json.load(answer)
        return state

    @property
    def pids(self) -> dict[str, int]:
        """The processes of `master` and `worker-N`. Executors are children of their worker's."""
        return {name: process.pid for name, process in self._processes.items()}

    def kill(self, name: str) -> None:
        """Kill `master` or `worker-N` as a machine that fails would: without a word to anybody."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Stop all processes, wait for them, and remove the directory."""
        # Workers first: they end their executors.
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self, name: str, kind: str, *arguments: str) -> Path:
        import pyspark

        home = Path(pyspark.__file__).parent
        log = self.directory / f"{name}.log"
        java = quiet_home(find_java(os.environ), os.environ)
        environment = {
            **self._environment,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(java),
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            # The loopback: nothing of it is to be reached from elsewhere.
            "SPARK_LOCAL_IP": _HOST,
        }
        command = [str(home / "bin" / "spark-class"), kind, "--host", _HOST, "--port", "0", *arguments]
        with log.open("wb") as output:
            # In a session of its own: a Ctrl-C at the terminal is for the program that stops it in order.
            self._processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=environment,
                start_new_session=True,
            )
        return log

    def _await(self, name: str, log: Path, sign: re.Pattern[str]) -> str:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            text = log.read_text(encoding="utf-8", errors="replace")
            found = sign.search(text)
            if found:
                return found.group(found.re.groups)
            if self._processes[name].poll() is not None or time.monotonic() > deadline:
                last = "\n".join(text.splitlines()[-10:])
                raise ConfigurationError(f"the {name} of a standalone cluster did not start. Its last words:\n{last}")
            time.sleep(0.05)


def main(
    workers: Annotated[int, typer.Option(min=1, help="How many workers.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Slots of each worker.")] = 4,
    memory: Annotated[str, typer.Option(help="Memory for the executors of each worker, such as 4g.")] = "4g",
) -> None:
    """Start a standalone Spark cluster on the loopback of this machine, and keep it until Ctrl-C."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with StandaloneCluster(workers, cores, memory) as cluster:
            print(
                f"{cluster.url}   {workers} worker{'s'[: workers != 1]} of {cores} slots   http://{_HOST}:{cluster.page_port}"
            )
            print(f"penstock run --master {cluster.url} -D spark.master.ui.port={cluster.page_port} job.py")
            print("Ctrl-C stops it.", flush=True)
            ended.wait()
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
