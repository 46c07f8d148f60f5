"""A standalone Spark cluster on this machine: a master and workers, each a process of its own, on the loopback.

With it you can test a program on a cluster before you have one: executors register late, have another working
directory, can't see the program's folder, and may be lost and replaced.

    python -m penstock.testing.standalone_cluster --workers 2 --cores 4

It runs Spark from PySpark's own package, on the Java that penstock would use for a job. It is not for production: any
user of this machine can submit to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer

from penstock.hosts.spark.driver.java import find_java, quiet_home
from penstock.testing.server_process import LOOPBACK, ServerProcess, serve

_MASTER_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE_STARTED = re.compile(r"Bound MasterWebUI to \S+, and started at http://[^:\s]+:(\d+)")
_WORKER_STARTED = re.compile(r"Successfully registered with master")
_DAEMON_MEMORY = "512m"


class StandaloneCluster:
    """A master and `workers` workers of `cores` slots each, which run while the `with` block does.

    `memory`: of the executors of one worker together, as Spark writes it. `environment`: variables of workers and
    executors; None: those of this process. Logs and the executors' working directories are in a temporary directory,
    which is removed at the end.
    """

    def __init__(
        self, workers: int = 2, cores: int = 4, memory: str = "4g", environment: dict[str, str] | None = None
    ) -> None:
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._environment = dict(os.environ if environment is None else environment)
        self._processes: dict[str, ServerProcess] = {}
        self.directory = Path()
        self.url = ""
        """For `spark.master`: spark://127.0.0.1:PORT."""
        self.page_port = 0
        """Port of the master's page, on which Spark shows workers and applications; for `spark.master.ui.port`."""

    def __enter__(self) -> StandaloneCluster:
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-standalone-"))
        try:
            master = self._start("master", "org.apache.spark.deploy.master.Master", "--webui-port", "0")
            self.url = master.wait_for(_MASTER_STARTED)
            self.page_port = int(master.wait_for(_PAGE_STARTED))
            for worker in [self._start_worker(f"worker-{number}") for number in range(self._workers)]:
                worker.wait_for(_WORKER_STARTED)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_worker(self, name: str) -> None:
        """Start one more worker. It registers some seconds later."""
        self._start_worker(name)

    def _start_worker(self, name: str) -> ServerProcess:
        work = self.directory / name
        work.mkdir()
        options = ["--webui-port", "0", "--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(work)]
        return self._start(name, "org.apache.spark.deploy.worker.Worker", *options, self.url)

    def state(self) -> dict[str, Any]:
        """Return the master's state as its page shows it: `workers`, `activeapps`, `cores`, `coresused` and more."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.page_port}/json/") as answer:
            state: dict[str, Any] = json.load(answer)
        return state

    @property
    def pids(self) -> dict[str, int]:
        """Return the ids of the processes `master` and `worker-N`. Executors are children of their worker."""
        return {name: process.pid for name, process in self._processes.items()}

    def kill(self, name: str) -> None:
        """Kill `master` or `worker-N` without notice, as a failing machine would."""
        self._processes.pop(name).end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop all processes, wait for them, and remove the directory."""
        # Workers first: they end their executors.
        for process in reversed(self._processes.values()):
            process.end()
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self, name: str, kind: str, *arguments: str) -> ServerProcess:
        import pyspark

        home = Path(pyspark.__file__).parent
        java = quiet_home(find_java(os.environ), os.environ)
        environment = {
            **self._environment,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(java),
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            # Only the loopback, so that other machines can't reach it.
            "SPARK_LOCAL_IP": LOOPBACK,
        }
        command = [str(home / "bin" / "spark-class"), kind, "--host", LOOPBACK, "--port", "0", *arguments]
        log = self.directory / f"{name}.log"
        self._processes[name] = ServerProcess(f"the {name} of a standalone cluster", command, log, environment)
        return self._processes[name]


def main(
    workers: Annotated[int, typer.Option(min=1, help="How many workers.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Slots of each worker.")] = 4,
    memory: Annotated[str, typer.Option(help="Memory for the executors of each worker, such as 4g.")] = "4g",
) -> None:
    """Start a standalone Spark cluster on the loopback of this machine, and keep it until Ctrl-C."""
    serve(_cluster(workers, cores, memory), takes_arguments=True)


@contextlib.contextmanager
def _cluster(workers: int, cores: int, memory: str) -> Iterator[str]:
    with StandaloneCluster(workers, cores, memory) as cluster:
        slots = f"{workers} worker{'s'[: workers != 1]} of {cores} slots"
        command = f"penstock run --master {cluster.url} -D spark.master.ui.port={cluster.page_port} job.py"
        yield f"{cluster.url}   {slots}   http://{LOOPBACK}:{cluster.page_port}\n{command}"


if __name__ == "__main__":
    typer.run(main)
