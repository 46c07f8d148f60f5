"""A job of a cluster while other jobs come and go beside it: its latency with neighbours, and without.

The cluster, the job and its neighbours are processes of their own. `begun_s` is the time from a neighbour's submission
until it has begun, `ran_s` until its end was seen.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from benchmarks.latency import through_exchanges
from benchmarks.measurement import measure, options, tell
from penstock.cluster.running_cluster import RunningCluster, running_clusters
from penstock.common.configuration import Configuration
from penstock.datastream import StreamExecutionEnvironment

_SLOTS = 32


def start_cluster(directory: Path) -> RunningCluster:
    """By the command that users have."""
    command = [sys.executable, "-m", "penstock.cli.main", "cluster", "start", "--dir", str(directory)]
    subprocess.run([*command, "--slots", str(_SLOTS), "--rest-port", "0"], check=True, stdout=subprocess.DEVNULL)
    return next(one for one in running_clusters() if one.directory == str(directory))


def stop_cluster(directory: Path) -> None:
    """With what runs in it."""
    command = [sys.executable, "-m", "penstock.cli.main", "cluster", "stop", "--dir", str(directory), "--cancel-jobs"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Neighbours(threading.Thread):
    """Short jobs, one after the other, until `stop`."""

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self.begun_s: list[float] = []
        self.ran_s: list[float] = []
        self._settings = settings
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(self._settings))
            words = env.from_collection(["to", "be", "or", "not", "to", "be"]).map(lambda word: (word, 1))
            words.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).filter(
                lambda pair: False
            ).print()
            began_s = time.monotonic()
            client = env.execute_async("neighbour")
            self.begun_s.append(time.monotonic() - began_s)
            client.get_job_execution_result().result()
            self.ran_s.append(time.monotonic() - began_s)

    def stop(self) -> None:
        """After the one that runs."""
        self._stopped.set()
        self.join()


def latency(arguments: argparse.Namespace) -> dict[str, float]:
    """Of the job, over its window."""
    return measure(arguments, lambda env: through_exchanges(env, arguments.rate, 1), stamp=2).latency()


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--rate", type=float, default=20_000, help="records/s")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        cluster = start_cluster(Path(name))
        try:
            assert cluster.rest is not None
            host, _, port = cluster.rest.url.removeprefix("http://").rpartition(":")
            remote = {"execution.target": "remote", "rest.address": host, "rest.port": port}
            arguments.conf += [f"{key}={value}" for key, value in remote.items()]
            alone = latency(arguments)
            neighbours = Neighbours(remote)
            neighbours.start()
            beside = latency(arguments)
            neighbours.stop()
        finally:
            stop_cluster(Path(name))
    tell(
        {
            **{f"alone_{key}": value for key, value in alone.items()},
            **{f"beside_{key}": value for key, value in beside.items()},
            "neighbours": len(neighbours.ran_s),
            "neighbour_begun_s": median(neighbours.begun_s),
            "neighbour_ran_s": median(neighbours.ran_s),
        }
    )


if __name__ == "__main__":
    main()
