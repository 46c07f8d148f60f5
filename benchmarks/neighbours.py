"""A job of a cluster while other jobs come and go beside it: its latency with neighbours, and without.

The cluster, the job and its neighbours are processes of their own. Neighbours come several at a time. Each second one
counts words and ends; the others fail, each in its turn in another way: an exception, a worker that leaves by
`os._exit`, a process of a job that is killed, and a worker that takes memory up to a limit. A witness runs beside all
of them, and writes numbers to files with its checkpoints: at the end each must be there once, and neither job may have
been restarted. `begun_s` is the time from a neighbour's submission until it has begun, `ran_s` until its end was seen.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.latency import through_exchanges
from benchmarks.measurement import measure, options, tell
from penstock.common import Encoder, WatermarkStrategy
from penstock.common.configuration import Configuration
from penstock.common.errors import PenstockError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.service.client.rest_client import RestClient
from penstock.service.cluster.running_cluster import RunningCluster, running_clusters

_SLOTS = 32
_MEMORY_BYTES = 256 << 20
WORDS = ["to", "be", "or", "not", "to", "be"]


def start_cluster(directory: Path) -> RunningCluster:
    """By the command that users have."""
    command = [sys.executable, "-m", "penstock.service.cli.main", "cluster", "start", "--dir", str(directory)]
    subprocess.run([*command, "--slots", str(_SLOTS), "--rest-port", "0"], check=True, stdout=subprocess.DEVNULL)
    return next(one for one in running_clusters() if one.directory == str(directory))


def stop_cluster(directory: Path) -> None:
    """With what runs in it."""
    command = [
        sys.executable,
        "-m",
        "penstock.service.cli.main",
        "cluster",
        "stop",
        "--dir",
        str(directory),
        "--cancel-jobs",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _number(index: int) -> int:
    return index


def _count(word: str) -> str:
    return word


def _raise(word: str) -> str:
    raise ValueError("this neighbour fails")


def _leave(word: str) -> str:
    os._exit(3)


def _wait(word: str) -> str:
    time.sleep(60)
    return word


def _eat(word: str) -> str:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY_BYTES,) * 2)
    eaten = []
    while True:
        eaten.append(bytearray(16 << 20))


FAILURES: dict[str, Callable[[str], str]] = {"raises": _raise, "leaves": _leave, "is killed": _wait, "eats": _eat}


class Neighbours:
    """`count` short jobs, `at_once` of them beside each other, from the start on."""

    def __init__(self, settings: dict[str, str], directory: Path, count: int, at_once: int) -> None:
        self.begun_s: list[float] = []
        self.ran_s: list[float] = []
        self.ends: Counter[str] = Counter()
        self._settings = settings
        self._directory = directory
        self._numbers = iter(range(count))
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(at_once)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Until the last one has ended."""
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                return
            failures = list(FAILURES)
            self._one("counts" if number % 2 else failures[number // 2 % len(failures)])

    def _one(self, kind: str) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(self._settings))
        counted = env.from_collection(WORDS).map(FAILURES.get(kind, _count)).map(lambda word: (word, 1))
        counted.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).filter(lambda pair: False).print()
        began_s = time.monotonic()
        client = env.execute_async(f"neighbour that {kind}")
        if kind == "is killed":
            os.kill(self._process_of(str(client.get_job_id())), signal.SIGKILL)
        begun_s, ended = time.monotonic() - began_s, "finished"
        try:
            client.get_job_execution_result().result()
        except PenstockError as error:
            ended = type(error).__name__
        if kind == "counts":
            self.begun_s.append(begun_s)
            self.ran_s.append(time.monotonic() - began_s)
        self.ends[f"{kind}: {ended}"] += 1

    def _process_of(self, job_id: str) -> int:
        folder = str(self._directory / "jobs" / job_id).encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if folder in path.read_bytes().split(b"\0"):
                    return int(path.parent.name)
            except OSError:
                continue
        raise LookupError(f"no process of the job {job_id}")


class Witness:
    """A job that writes numbers, 1,000 a second, exactly once."""

    def __init__(self, settings: dict[str, str], directory: Path) -> None:
        self._files, self._saved = directory / "witness", directory / "saved"
        checkpoints = {
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": str(directory / "checkpoints"),
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings | checkpoints))
        source: DataGeneratorSource[int] = DataGeneratorSource(
            _number, 10_000_000, RateLimiterStrategy.per_second(1_000)
        )
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        sink = FileSink.for_row_format(str(self._files), Encoder.simple_string_encoder())
        sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        numbers.map(str).sink_to(sink.build())
        self._client: Any = env.execute_async("witness")
        self.id = str(self._client.get_job_id())

    def check(self) -> int:
        """Stop it. Returns how many numbers it has written, each once."""
        self._client.stop_with_savepoint(False, str(self._saved)).result()
        files = (path for path in self._files.rglob("part-*"))
        numbers = sorted(int(line) for path in files for line in path.read_text().splitlines())
        assert numbers == list(range(len(numbers))), "the witness has lost or doubled numbers"
        return len(numbers)


def latency(arguments: argparse.Namespace, seconds: int, begun: Callable[[], None] = lambda: None) -> dict[str, float]:
    """Of the job, over its window."""
    of_window = argparse.Namespace(**{**vars(arguments), "seconds": seconds})
    return measure(of_window, lambda env: through_exchanges(env, arguments.rate, 1), begun=begun, stamp=2).latency()


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--rate", type=float, default=20_000, help="records/s")
    parser.add_argument("--jobs", type=int, default=50, help="how many neighbours come")
    parser.add_argument("--at-once", type=int, default=2, help="of them")
    parser.add_argument("--beside-seconds", type=int, default=90, help="of the window beside them")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        cluster = start_cluster(Path(name))
        try:
            assert cluster.rest is not None
            host, _, port = cluster.rest.url.removeprefix("http://").rpartition(":")
            remote = {"execution.target": "remote", "rest.address": host, "rest.port": port}
            arguments.conf += [f"{key}={value}" for key, value in remote.items()]
            witness = Witness({**remote, "parallelism.default": "1"}, Path(name))
            alone = latency(arguments, arguments.seconds)
            neighbours = Neighbours(remote, Path(name), arguments.jobs, arguments.at_once)
            began_s = time.monotonic()
            beside = latency(arguments, arguments.beside_seconds, neighbours.start)
            neighbours.join()
            took_s = time.monotonic() - began_s
            client = RestClient(cluster.rest.url, cluster.rest.token())
            (restarts,) = client.get(f"/jobs/{witness.id}/metrics?get=numRestarts")
            assert float(restarts["value"]) == 0, "the witness was restarted"
            records = witness.check()
        finally:
            stop_cluster(Path(name))
    print(f"neighbours: {dict(sorted(neighbours.ends.items()))}")
    tell(
        {
            **{f"alone_{key}": value for key, value in alone.items()},
            **{f"beside_{key}": value for key, value in beside.items()},
            "neighbours": neighbours.ends.total(),
            "all_took_s": took_s,
            "neighbour_begun_s": median(neighbours.begun_s),
            "neighbour_ran_s": median(neighbours.ran_s),
            "witnessed_records": records,
        }
    )


if __name__ == "__main__":
    main()
