"""A cluster whose leader is elected, and faults of all who take part: a job's output must come exactly once.

    python -m tests.e2e.failovers --type zookeeper --faults 60 --seed 1

Each fault is one of what can happen to the leader's processes, together with one of what can happen to the other
process, or to a server of ZooKeeper. After it the job must have committed output again, by whoever leads, before the
next one comes. A leader that is stopped is sent a job meanwhile, which it reads when it goes on: it must not take it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.chaos.processes import MARK, marked
from tests.unit.service.cluster.high_availability.kubernetes_objects import NAMESPACE, ApiServerDouble

from penstock.common.errors import PenstockError
from penstock.service.client.rest_client import RestClient
from penstock.service.cluster.running_cluster import RunningCluster, running_clusters
from penstock.testing.zookeeper_ensemble import ZooKeeperEnsemble

SLOTS = 2
PROGRAM = """
import sys, time
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(300)
numbers = env.from_source(NumberSequenceSource(1, 10_000_000), WatermarkStrategy.no_watermarks(), "numbers")

def slowly(number):
    time.sleep(0.005)
    return str(number)

sink = FileSink.for_row_format(sys.argv[1], Encoder.simple_string_encoder())
numbers.map(slowly).sink_to(sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
env.execute("numbers")
"""
LEADER = ("kill", "kill all", "stop", "stop all", "stop shortly", "end", "")
"""What happens to the leader. `all`: its job's process, Spark's JVM and workers, too, as with a machine."""
OTHERS = ("", "kill standby", "stop standby", "kill server", "stop server")
"""What happens besides, a moment before. `server`: one of ZooKeeper."""
KINDS = ("zookeeper", "kubernetes", "filesystem")
STOPPED_S = 16.0
"""At least twice as long as a leader may be silent: by default 6 s, in Kubernetes 8 s."""
SHORTLY_S = 2.0


class Fault(NamedTuple):
    """What happens to the leader, and to another one."""

    leader: str
    other: str

    def __str__(self) -> str:
        return " and ".join(filter(None, (self.other, self.leader and f"{self.leader} leader"))) or "nothing"


class Member:
    """One of the processes that may lead, as on a machine of its own."""

    def __init__(self, cluster: ElectedCluster, name: str) -> None:
        self._cluster = cluster
        self.directory = cluster.directory / name
        self._mark = f"{cluster.directory.name}-{name}"

    def start(self) -> None:
        """Return when it leads, or stands by."""
        words = ["cluster", "start", "--slots", SLOTS, "--dir", self.directory, "--rest-port", 0]
        done = self._cluster.command(*words, *self._cluster.settings, mark=self._mark)
        assert done.returncode == 0, done.stderr

    @property
    def running(self) -> RunningCluster | None:
        """None: it does not run."""
        return next((one for one in running_clusters() if one.directory == str(self.directory)), None)

    @property
    def log(self) -> str:
        """What it has said, all of its processes one after the other."""
        return (self.directory / "cluster.log").read_text(errors="replace")

    def signal(self, number: signal.Signals, all_of_it: bool = False) -> None:
        """Send it to the process, or to all that it has started as well."""
        running = self.running
        pids = list(marked(self._mark)) if all_of_it else [running.pid] if running is not None else []
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class ElectedCluster:
    """Two processes, and what elects one of them, from `with` on until the block ends."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.directory = directory
        self.ensemble = ZooKeeperEnsemble() if kind == "zookeeper" else None
        self._api_server = ApiServerDouble() if kind == "kubernetes" else None
        settings = {"type": kind, "storageDir": str(directory / "shared")}
        if self._api_server is not None:
            settings["kubernetes.api-server"] = self._api_server.url
        self._settings = {f"high-availability.{key}": value for key, value in settings.items()}
        self._settings["kubernetes.namespace"] = NAMESPACE
        self.members = [Member(self, name) for name in "ab"]
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ElectedCluster:
        with contextlib.ExitStack() as stack:
            if self.ensemble is not None:
                stack.enter_context(self.ensemble)
                self._settings["high-availability.zookeeper.quorum"] = self.ensemble.quorum
            if self._api_server is not None:
                stack.enter_context(self._api_server)
            for member in self.members:
                stack.callback(member.signal, signal.SIGKILL, all_of_it=True)
            with ThreadPoolExecutor() as pool:
                list(pool.map(Member.start, self.members))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def settings(self) -> list[str]:
        """As options of a command."""
        return [word for key, value in self._settings.items() for word in ("-D", f"{key}={value}")]

    def command(self, *words: object, mark: str = "") -> subprocess.CompletedProcess[str]:
        """Run one of penstock's."""
        return subprocess.run(
            [sys.executable, "-m", "penstock.service.cli.main", *map(str, words)],
            cwd=self.directory, env={**os.environ, MARK: mark},
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip

    @property
    def leader(self) -> Member:
        """The last one that has said that it leads."""
        return max(self.members, key=lambda member: max(terms(member.log), default=0))

    @property
    def standby(self) -> Member:
        """The other one."""
        return next(member for member in self.members if member is not self.leader)


def terms(log: str) -> list[int]:
    """In which a process has led."""
    return [int(term) for term in re.findall(r"leads the cluster, in term (\d+)", log)]


class Job:
    """Numbers from 1 on, written to files with each checkpoint, in a cluster that it may leave and come back to."""

    def __init__(self, cluster: ElectedCluster) -> None:
        self._cluster = cluster
        self.output = cluster.directory / "out"
        (cluster.directory / "count_up.py").write_text(PROGRAM)
        checkpoints = f"execution.checkpointing.dir={cluster.directory / 'checkpoints'}"
        settings = ["-D", "execution.target=remote", "-D", checkpoints, *cluster.settings]
        done = cluster.command("run", "-d", *settings, "count_up.py", self.output)
        begun = re.search(r"job ([0-9a-f]{32}) ", done.stderr)
        assert begun is not None, done.stderr
        self.id = begun[1]

    @property
    def packed(self) -> bytes:
        """As a client sends it."""
        return (self._cluster.directory / "shared" / "default" / "jobs" / self.id / "job").read_bytes()

    @property
    def commits(self) -> int:
        """How many files are committed."""
        return sum(1 for _ in self._files())

    def goes_on(self, within_s: float = 90) -> float:
        """Wait for a commit. Returns how long that took."""
        begun_s, before = time.monotonic(), self.commits
        until(lambda: self.commits > before, within_s)
        return time.monotonic() - begun_s

    def stop(self) -> None:
        """Stop it with a savepoint: all that it has processed is committed. If it is just beginning again, wait."""
        tries = 60
        while True:
            done = self._cluster.command("stop", self.id, self._cluster.directory / "saved")
            tries -= 1
            if "not RUNNING" not in done.stderr or not tries:
                break
            time.sleep(0.5)
        assert done.returncode == 0, done.stderr

    def check(self) -> int:
        """That each number up to some one was written, once. Returns how many there are."""
        numbers = sorted(int(line) for path in self._files() for line in path.read_text().splitlines())
        doubled = [number for number, after in itertools.pairwise(numbers) if number == after]
        assert not doubled, f"{len(doubled)} came twice, {doubled[0]} among them"
        assert numbers == list(range(1, len(numbers) + 1)), "some are missing"
        return len(numbers)

    def _files(self) -> Iterator[Path]:
        return (path for path in self.output.rglob("*") if path.is_file() and not path.name.startswith("."))


class Nemesis:
    """Carries faults out, and mends what they have broken."""

    def __init__(self, cluster: ElectedCluster, job: Job) -> None:
        self._cluster = cluster
        self._job = job
        self.refused = 0
        """Jobs that a former leader was sent, and has not taken."""

    def carry_out(self, fault: Fault, starts_again: bool = True) -> float:
        """Returns after how many seconds the job had committed output again; then all is mended.

        `starts_again`: processes that were lost, too.
        """
        leader, standby, led = self._cluster.leader, self._cluster.standby, check_terms(self._cluster)
        with contextlib.ExitStack() as mended:
            self._other(fault.other, standby, mended)
            begun_s = time.monotonic()
            if fault.leader.startswith("stop"):
                self._stop(leader, fault.leader, mended)
            elif fault.leader:
                number = signal.SIGTERM if fault.leader == "end" else signal.SIGKILL
                leader.signal(number, all_of_it=fault.leader == "kill all")
                until(lambda: leader.running is None)
            if fault.other.endswith("standby") and fault.leader:
                # There is nobody else.
                mended.close()
                self._mend()
            if fault.leader not in ("", "stop shortly"):
                # What is committed before is the former leader's.
                until(lambda: check_terms(self._cluster) > led, 90)
            self._job.goes_on()
            took_s = time.monotonic() - begun_s
        if starts_again:
            self._mend()
        return took_s

    def _other(self, what: str, standby: Member, mended: contextlib.ExitStack) -> None:
        if what == "kill standby":
            standby.signal(signal.SIGKILL)
            until(lambda: standby.running is None)
        elif what == "stop standby":
            standby.signal(signal.SIGSTOP)
            mended.callback(standby.signal, signal.SIGCONT)
        elif what and self._cluster.ensemble is not None:
            server = random.choice(self._cluster.ensemble.servers)
            if what == "kill server":
                server.kill()
                mended.callback(server.start)
            else:
                os.kill(server.pid, signal.SIGSTOP)
                mended.callback(os.kill, server.pid, signal.SIGCONT)

    def _stop(self, leader: Member, how: str, mended: contextlib.ExitStack) -> None:
        running, all_of_it = leader.running, how == "stop all"
        assert running is not None and running.rest is not None, leader.log[-1000:]
        client = RestClient(running.rest.url, running.rest.token(), 60)
        leader.signal(signal.SIGSTOP, all_of_it)
        answers: list[object] = []
        sent = threading.Thread(target=lambda: answers.append(_answer_of(client, self._job.packed)), daemon=True)
        if how != "stop shortly":
            sent.start()
        timer = threading.Timer(
            SHORTLY_S if how == "stop shortly" else STOPPED_S, leader.signal, (signal.SIGCONT, all_of_it)
        )
        timer.start()

        def goes_on() -> None:
            timer.join()
            if how != "stop shortly":
                sent.join(60)
                assert answers and answers[0] != 202, "a former leader has taken a job"
                self.refused += 1
                until(lambda: leader.running is None)
                assert "no longer leads the cluster" in leader.log

        mended.callback(goes_on)

    def _mend(self) -> None:
        """Start what does not run."""
        if self._cluster.ensemble is not None:
            self._cluster.ensemble.wait_for_quorum()
        for member in self._cluster.members:
            if member.running is None:
                member.start()


def _answer_of(client: RestClient, packed: bytes) -> int:
    with contextlib.suppress(PenstockError, OSError):
        return client.answer("POST", f"/submissions?id={os.urandom(16).hex()}", packed)[0]
    return 0


def until(happened: Callable[[], object], within_s: float = 60) -> None:
    """Wait for it."""
    end_s = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < end_s, "it has not happened"
        time.sleep(0.05)


def faults_of(kind: str, seed: int, count: int) -> list[Fault]:
    """All combinations in an order of the seed, again and again."""
    others = [other for other in OTHERS if kind == "zookeeper" or not other.endswith("server")]
    every = [Fault(leader, other) for leader in LEADER for other in others if leader or other]
    chance = random.Random(seed)
    drawn = itertools.chain.from_iterable(chance.sample(every, len(every)) for _ in itertools.count())
    return list(itertools.islice(drawn, count))


def check_terms(cluster: ElectedCluster) -> int:
    """That no two have led the same term. Returns how many terms there were."""
    led = [term for member in cluster.members for term in terms(member.log)]
    assert len(led) == len(set(led)), f"two have led a term: {sorted(led)}"
    return len(led)


def main() -> None:
    """Carry faults out, print how long each took, and check the output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--type", choices=KINDS, default="zookeeper")
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="of the faults, so many are left out")
    parser.add_argument("--minutes", type=int, default=600, help="no fault is begun behind them")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="penstock-failovers-"))
    print(f"all is in {directory}", flush=True)
    random.seed(arguments.seed)
    with ElectedCluster(directory, arguments.type) as cluster:
        job = Job(cluster)
        job.goes_on()
        nemesis = Nemesis(cluster, job)
        faults = faults_of(arguments.type, arguments.seed, arguments.skip + arguments.faults)[arguments.skip :]
        until_s = time.monotonic() + 60 * arguments.minutes
        done = 0
        for number, fault in enumerate(faults, 1):
            if time.monotonic() > until_s:
                break
            done = number
            took_s = nemesis.carry_out(fault)
            print(f"{number:3}  {took_s:5.1f} s  {fault}", flush=True)
        job.stop()
        numbers = job.check()
        print(f"{done} faults, {check_terms(cluster)} terms, {nemesis.refused} jobs refused by former leaders")
        print(f"{numbers} numbers, each once")


if __name__ == "__main__":
    main()
