"""A cluster of penstock's: many jobs in one Spark application, each in a process of its own."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.e2e.wheels import pack_wheel
from tests.spark.test_lost_workers import visible

from penstock.service.client.rest_client import RestClient
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.running_cluster import RunningCluster, running_clusters

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm]

SLOTS = 6
WORKER_ENDS = {"leave": "TaskLostError", "die": "TaskLostError", "eat": "UserFunctionError"}
"""How a worker ends, and the failure that its job reports."""
COUNTS = """
import beside
from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(["a b", "b c"]).flat_map(str.split).map(lambda word: (word, beside.ONE)).key_by(
    lambda pair: pair[0]
).reduce(lambda one, other: (one[0], one[1] + other[1])).map(lambda pair: 1 // int(beside.DIVISOR)).print()
env.execute("counts")
"""
NUMBERS = """
import sys, time
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(300)
numbers = env.from_source(NumberSequenceSource(1, int(sys.argv[2])), WatermarkStrategy.no_watermarks(), "numbers")

def slowly(number):
    time.sleep(0.001)
    return str(number)

numbers.map(slowly).sink_to(FileSink.for_row_format(sys.argv[1], Encoder.simple_string_encoder()).build())
env.execute("numbers")
"""

FALLS_BEHIND = """
import sys, time
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(300)
source = DataGeneratorSource(lambda index: index + 1, 1_000_000, RateLimiterStrategy.per_second(400))
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")

def slowly(number):
    time.sleep(0.005)
    return str(number)

sink = FileSink.for_row_format(sys.argv[1], Encoder.simple_string_encoder()).build()
numbers.rebalance().map(slowly).name("works").sink_to(sink)
env.execute("falls behind")
"""
ENDS = """
import os, resource, signal, sys, time
from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource

def leave():
    os._exit(3)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def eat():
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20),) * 2)
    eaten = []
    while True:
        eaten.append(bytearray(16 << 20))

def ends(number, how={"leave": leave, "die": die, "eat": eat}[sys.argv[1]]):
    time.sleep(0.001)
    return how() if number == 300 else number

env = StreamExecutionEnvironment.get_execution_environment()
env.from_source(NumberSequenceSource(1, 1_000_000), WatermarkStrategy.no_watermarks(), "numbers").map(ends).print()
env.execute(sys.argv[1])
"""
VERSIONS = """
import os, sys, time
from pathlib import Path
from penstock.datastream import StreamExecutionEnvironment

mine, other, met = *sys.argv[1:3], Path(sys.argv[3])
env = StreamExecutionEnvironment.get_execution_environment()
env.set_python_requirements(f"{mine}.txt", "wheels")

def seen(number):
    import tiny
    (met / mine).touch()
    end_s = time.monotonic() + 60
    while not (met / other).exists():
        assert time.monotonic() < end_s, "the other job does not run beside this one"
        time.sleep(0.05)
    import tiny.late
    return f"{tiny.VERSION} {tiny.late.VERSION} {os.getppid()}"

env.from_collection([1]).map(seen).print()
env.execute(mine)
"""


class Cluster:
    """One that a test has started, by the commands that a user has."""

    def __init__(self, directory: Path, *options: object) -> None:
        self.directory = directory
        self._options = options or ("--slots", SLOTS)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it takes jobs."""
        self.command("cluster", "start", "--dir", self.directory, *self._options, "--rest-port", "0")

    @property
    def running(self) -> RunningCluster:
        """The process that leads."""
        return next(one for one in running_clusters() if one.directory == str(self.directory) and one.rest is not None)

    @property
    def rest(self) -> RestAddress:
        """Where it serves."""
        rest = self.running.rest
        assert rest is not None
        return rest

    @property
    def client(self) -> RestClient:
        """Of its REST."""
        return RestClient(self.rest.url, self.rest.token())

    def command(self, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of penstock's."""
        done = subprocess.run(
            [sys.executable, "-m", "penstock.service.cli.main", *map(str, words)],
            cwd=self.directory, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done

    def run(self, *words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program in it."""
        return self.command("run", "-m", self.rest.url.removeprefix("http://"), *words, check=check)

    def submit(self, *words: object) -> str:
        """Run a program in it, and don't wait. Returns the job's id."""
        begun = re.search(r"job ([0-9a-f]{32}) ", self.run("-d", *words).stderr)
        assert begun is not None
        return begun[1]

    def job(self, job_id: str) -> dict[str, Any]:
        """What the cluster knows of a job."""
        job: dict[str, Any] = self.client.get(f"/submissions/{job_id}")
        return job


def until(happened: Callable[[], object], within_s: float = 60) -> None:
    """Wait for it."""
    end_s = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < end_s, "it has not happened"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    (directory / "counts.py").write_text(COUNTS)
    (directory / "count_up.py").write_text(NUMBERS)
    (directory / "beside.py").write_text("ONE, DIVISOR = 1, 1")
    cluster = Cluster(directory, "--slots", SLOTS, "-D", "spark.hadoop.fs.s3a.secret.key=s3cret")
    try:
        yield cluster
    finally:
        cluster.command("cluster", "stop", "--dir", directory)
        assert not [one for one in running_clusters() if one.directory == str(directory)]


@pytest.fixture(autouse=True)
def nothing_left(cluster: Cluster) -> Iterator[None]:
    """A test that fails leaves its jobs, whose slots the next one would wait for."""
    yield
    for job in cluster.client.get("/submissions"):
        if job["phase"] not in ("ENDING", "ENDED"):
            cluster.client.request("PATCH", f"/submissions/{job['id']}")
    until(lambda: all(job["phase"] == "ENDED" for job in cluster.client.get("/submissions")))


def test_a_program_runs_in_a_cluster_as_it_does_at_home(cluster: Cluster) -> None:
    """What it prints, its settings and the modules beside it would stay behind; or its error tell nothing."""
    done = cluster.run("counts.py")
    assert done.stdout == "1\n" * 4
    assert "2 records in, 4 out" in done.stderr
    (cluster.directory / "beside.py").write_text("ONE, DIVISOR = 1, 0")
    failed = cluster.run("counts.py", check=False)
    (cluster.directory / "beside.py").write_text("ONE, DIVISOR = 1, 1")
    assert failed.returncode == 1
    assert "penstock.UserFunctionError: operator 'Map'" in failed.stderr
    assert "ZeroDivisionError" in failed.stderr
    assert "Traceback (most recent call last)" not in failed.stderr.partition("penstock.UserFunctionError")[0]
    cluster.run("-D", "execution.runtime-mode=BATCH", "counts.py")
    # It holds one, so that others can't take all and leave it to wait for ever.
    assert cluster.client.get("/submissions")[-1]["slots"] == 1
    commands = subprocess.run("cat /proc/[0-9]*/cmdline", shell=True, capture_output=True).stdout
    assert b"penstock.service.dispatcher.main" in commands and b"=s3cret" not in commands, "all users see it"
    large = cluster.run("-p", 20, "counts.py", check=False)
    assert f"needs 41 slots at once, and this cluster has {SLOTS}" in large.stderr


def test_a_program_that_was_uploaded_is_run_by_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Flink's page for new jobs, and tools that submit over HTTP, would have nothing to submit to."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__main__.py", "import sys\n" + COUNTS.replace('"counts"', "' '.join(sys.argv[1:])"))
        archive.writestr("beside.py", "ONE, DIVISOR = 1, 1")
    headers = {"Authorization": f"Bearer {cluster.rest.token()}"}
    with httpx.Client(base_url=cluster.rest.url, headers=headers, timeout=60) as client:
        uploaded = client.post("/v1/jars/upload", files={"jarfile": ("counts.zip", content.getvalue())}).json()
        id = Path(uploaded["filename"]).name
        asked = {"programArgs": "'two words'", "parallelism": 2}
        job = client.post(f"/jars/{id}/run", json=asked).json()["jobid"]
        # Its code has travelled with the job.
        assert client.delete(f"/jars/{id}").json() == {}
    until(lambda: cluster.job(job)["status"] == "FINISHED")
    assert cluster.job(job)["name"] == "two words"
    assert cluster.client.get(f"/jobs/{job}")["vertices"][-1]["parallelism"] == 2
    folder = cluster.directory / "jobs" / job
    assert sum(file.read_text().count("1\n") for file in folder.glob("output*")) == 4


def test_a_job_waits_for_slots_and_neighbors_are_not_touched(cluster: Cluster, tmp_path: Path) -> None:
    """Jobs would take each other's slots; and one that is killed would take the others with it, or keep its slots."""
    neighbour = cluster.submit("-p", 2, "-D", "rest.bind-port=0", "count_up.py", tmp_path / "of neighbour", 1_000_000)
    killed = cluster.submit("-p", 4, "count_up.py", tmp_path / "of killed", 1_000_000)
    until(lambda: cluster.client.get(f"/jobs/{killed}")["state"] == "RUNNING")
    said = cluster.run("-d", "counts.py").stderr
    assert f"waits for 2 slots: 0 of {SLOTS} are free" in said and "starts" not in said
    (queued,) = [job for job in cluster.client.get("/submissions") if job["phase"] == "QUEUED"]
    assert re.search(f"job {queued['id'][:8]} '.+' keeps running in its cluster", said), said
    assert queued["waiting"] == f"waits for 2 slots: 0 of {SLOTS} are free"
    assert "waits for 2 slots" in cluster.command("cluster", "status", "--dir", cluster.directory).stdout
    given_up = subprocess.Popen(
        [sys.executable, "-m", "penstock.service.cli.main", "run", "-m", cluster.rest.url[7:], "counts.py"],
        cwd=cluster.directory, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert any(re.search(r"job \w+ '.+' waits for 2 slots, behind 1 other", line) for line in given_up.stderr or ())
    given_up.send_signal(signal.SIGINT)
    given_up.communicate(timeout=60)
    assert (given_up.returncode, cluster.client.get("/submissions")[-1]["status"]) == (130, "CANCELED")
    os.kill(process_of(cluster, killed), signal.SIGKILL)
    until(lambda: cluster.job(killed)["phase"] == "ENDED")
    assert "was ended by SIGKILL" in cluster.job(killed)["error"]
    until(lambda: cluster.job(queued["id"])["status"] == "FINISHED")
    assert cluster.client.get(f"/jobs/{neighbour}")["state"] == "RUNNING"
    # Of those that have ended something is known, too.
    states = {job["jid"]: job["state"] for job in cluster.client.get("/jobs/overview")["jobs"]}
    assert (states[neighbour], states[killed], states[queued["id"]]) == ("RUNNING", "FAILED", "FINISHED")
    assert {vertex["status"] for vertex in cluster.client.get(f"/jobs/{queued['id']}")["vertices"]} == {"FINISHED"}
    stopped = process_of(cluster, neighbour)
    os.kill(stopped, signal.SIGSTOP)
    try:
        # One that does not answer does not hold up what is known of the others.
        shown = RestClient(cluster.rest.url, cluster.rest.token(), 8).get("/jobs/overview")["jobs"]
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert {job["jid"]: job["state"] for job in shown} == states
    saved = cluster.command("savepoint", neighbour, tmp_path / "saved").stdout.strip()
    assert (Path(saved) / "_metadata").exists()
    cluster.client.request("PATCH", f"/jobs/{neighbour}?mode=cancel")
    until(lambda: cluster.job(neighbour)["phase"] == "ENDED")
    assert cluster.job(neighbour)["status"] == "CANCELED"
    until(lambda: cluster.client.get("/overview")["slots-available"] == SLOTS)


def test_another_process_takes_the_place_of_one_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """All jobs would be gone with one process, or do again what they have done; and programs lose their jobs.

    And functions, or a parallelism, that a job was given while it ran would be gone with the process that ran it.
    """
    count = 8_000
    # Of all free ports it takes the same one.
    standby = ("cluster", "start", "--standby", "--dir", cluster.directory, "--slots", SLOTS, "--rest-port", 0)
    assert "is a standby" in cluster.command(*standby).stderr
    checkpoints = f"execution.checkpointing.dir={tmp_path / 'checkpoints'}"
    program = subprocess.Popen(
        [sys.executable, "-m", "penstock.service.cli.main", "run", "-m", cluster.rest.url[7:], "-D", checkpoints,
         "count_up.py", str(tmp_path / "out"), str(count)],
        cwd=cluster.directory, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: list((tmp_path / "checkpoints").glob("*/chk-*/_metadata")))
    new = cluster.directory / "count_up_anew.py"
    new.write_text(NUMBERS.replace("return str(number)", 'return f"{number} anew"'))
    job_id = cluster.client.get("/submissions")[-1]["job_id"]
    updated = cluster.command("update", job_id, new, tmp_path / "out", count).stdout
    (checkpoint,) = re.findall(r"has new functions since checkpoint (\d+): 'Map'", updated)
    cluster.command("scale", job_id, "-p", 2)
    before = cluster.running
    os.kill(before.pid, signal.SIGKILL)
    _, said = program.communicate(timeout=120)
    assert program.returncode == 0, said
    assert cluster.running.pid != before.pid
    shown = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    lines = sorted((line.partition(" ") for path in shown for line in path.read_text().splitlines()), key=_number)
    assert [int(number) for number, _, _ in lines] == list(range(1, count + 1))
    ways = [way for _, _, way in lines]
    old = ways.index("anew")
    assert int(checkpoint) > 0 and not any(ways[:old]), "those of before the update"
    subtasks = {vertex["parallelism"] for vertex in cluster.client.get(f"/jobs/{job_id}")["vertices"]}
    assert subtasks == {2}, "it went on as it was submitted"
    assert set(ways[old:]) == {"anew"}, "the one that took its place began with the functions before the update"


def test_what_ends_a_worker_ends_its_own_job_alone(cluster: Cluster, tmp_path: Path) -> None:
    """A worker that leaves, is killed, or has no memory left would take other jobs along, or make them restart."""
    (cluster.directory / "ends.py").write_text(ENDS)
    neighbour = cluster.submit("count_up.py", tmp_path / "out", 1_000_000)
    until(lambda: cluster.client.get(f"/jobs/{neighbour}")["state"] == "RUNNING")
    with ThreadPoolExecutor() as pool:
        jobs = dict(zip(WORKER_ENDS, pool.map(lambda how: cluster.submit("ends.py", how), WORKER_ENDS), strict=True))
    for how, job in jobs.items():
        until(lambda job=job: cluster.job(job)["phase"] == "ENDED")
        assert (cluster.job(job)["status"], cluster.job(job)["kind"]) == ("FAILED", WORKER_ENDS[how]), cluster.job(job)
    (restarts,) = cluster.client.get(f"/jobs/{neighbour}/metrics?get=numRestarts")
    assert float(restarts["value"]) == 0
    cluster.command("stop", neighbour, tmp_path / "saved")
    until(lambda: cluster.client.get("/overview")["slots-available"] == SLOTS)
    assert ranges_in(tmp_path / "out") == 1


def test_versions_of_one_package_beside_each_other(cluster: Cluster, tmp_path: Path) -> None:
    """Two teams' jobs could not share a cluster, or one would compute with the other one's package."""
    run_versions_beside_each_other(cluster, tmp_path)


@pytest.mark.soak
def test_a_reactive_job_takes_what_its_neighbours_leave(cluster: Cluster, tmp_path: Path) -> None:
    """It would stay as it has begun, take slots that are others' or lose records as it grows."""
    neighbour = cluster.submit("-p", 2, "count_up.py", tmp_path / "neighbour", 1_000_000)
    scheduler = "jobmanager.adaptive-scheduler"
    settings = {
        "scheduler-mode": "reactive",
        f"{scheduler}.resource-stabilization-timeout": "0 s",
        f"{scheduler}.executing.cooldown-after-rescaling": "0 s",
        f"{scheduler}.executing.resource-stabilization-timeout": "0 s",
    }
    words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
    job = cluster.submit(*words, "count_up.py", tmp_path / "out", 1_000_000)

    def runs_with(subtasks: int) -> bool:
        known = cluster.client.get(f"/jobs/{job}")
        return known["state"] == "RUNNING" and [vertex["parallelism"] for vertex in known["vertices"]] == [subtasks]

    until(lambda: runs_with(SLOTS - 2))
    assert cluster.client.get("/overview")["slots-available"] == 0
    cluster.client.request("PATCH", f"/jobs/{neighbour}?mode=cancel")
    until(lambda: runs_with(SLOTS))
    cluster.command("stop", job, tmp_path / "saved")
    assert ranges_in(tmp_path / "out") <= SLOTS - 2, "what a subtask reads, from its beginning on"


@pytest.mark.soak
def test_the_autoscaler_asks_the_cluster_for_slots(cluster: Cluster, tmp_path: Path) -> None:
    """A job that has fallen behind would stay so beside free slots, or take some that its cluster gives to others."""
    (cluster.directory / "falls_behind.py").write_text(FALLS_BEHIND)
    settings = {
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "500 ms",
        "job.autoscaler.metrics.window": "3 s",
    }
    words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
    job = cluster.submit(*words, "falls_behind.py", tmp_path / "out")

    def widths() -> list[int]:
        known = cluster.client.get(f"/jobs/{job}")
        return [vertex["parallelism"] for vertex in known["vertices"]] if known["state"] == "RUNNING" else []

    def has_grown() -> bool:
        found = widths()
        free = cluster.client.get("/overview")["slots-available"]
        return sum(found) > 3 and found[0] == 1 and free == SLOTS - sum(found)

    until(has_grown, 120)
    cluster.command("stop", job, tmp_path / "saved")
    assert ranges_in(tmp_path / "out") == 1


def run_versions_beside_each_other(cluster: Cluster, met: Path) -> None:
    """Each job must see its own version, in workers of its own."""
    (cluster.directory / "versions.py").write_text(VERSIONS)
    (cluster.directory / "wheels").mkdir()
    for version in ("1.0", "2.0"):
        modules = dict.fromkeys(("tiny/__init__.py", "tiny/late.py"), f"VERSION = '{version}'\n")
        pack_wheel(cluster.directory / "wheels", "tiny", version, modules)
        (cluster.directory / f"v{version}.txt").write_text(f"tiny=={version}\n")
    with ThreadPoolExecutor() as pool:
        beside = list(
            pool.map(lambda names: cluster.run("versions.py", *names, met), [("v1.0", "v2.0"), ("v2.0", "v1.0")])
        )
    (*one, its_daemon), (*other, others_daemon) = (done.stdout.split() for done in beside)
    assert (one, other) == (["1.0", "1.0"], ["2.0", "2.0"])
    assert its_daemon != others_daemon, "what forks the workers of one forks those of the other"


def ranges_in(out: Path) -> int:
    """In how many ranges without a gap the numbers are that a job has written. Each must be there once."""
    numbers = sorted(int(line) for path in visible(out) for line in path.read_text().splitlines())
    assert numbers[0] == 1 and len(numbers) == len(set(numbers)), "some came twice"
    return 1 + sum(after != number + 1 for number, after in itertools.pairwise(numbers))


def _number(line: tuple[str, str, str]) -> int:
    return int(line[0])


def process_of(cluster: Cluster, job_id: str) -> int:
    """The process of a job, by the arguments with which it was started."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = path.read_bytes().split(b"\0") if path.exists() else []
        if job_id.encode() in words and str(cluster.directory / "jobs" / job_id).encode() in words:
            return int(path.parent.name)
    raise AssertionError(f"no process of job {job_id}: {json.dumps(cluster.client.get('/submissions'))}")
