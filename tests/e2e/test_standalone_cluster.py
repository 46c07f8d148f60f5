"""A standalone cluster on the loopback takes jobs: at any time, with their code, and through the loss of executors.

Its workers have working directories of their own, and an import path with penstock and nothing of the programs.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from tests.e2e.wheels import pack, pack_wheel
from tests.spark.jobs import jvm_options, processes, wait_until

import penstock
from penstock.testing.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_500)]
SOURCE = str(Path(penstock.__file__).parents[1])
RUN = [sys.executable, "-m", "penstock.service.cli.main", "run"]
RUN_SECONDS = 600
"""A generous upper bound, for a machine that does other work as well: each job has a JVM, and two of executors."""

COUNT = """
    from penstock.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection("to be or not to be".split()).map(lambda word: (word, 1))
    counts = words.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    with counts.execute_and_collect("words") as results:
        print("counts", sorted(results)[-1])
"""
COUNTED = "counts ('to', 2)"
SLOWLY = """
    from penstock.common import WatermarkStrategy
    from penstock.connectors.base.data_generator import DataGeneratorSource
    from penstock.connectors.base.rate_limiter import RateLimiterStrategy
    from penstock.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda i: i, NUMBERS, RateLimiterStrategy.per_second(500))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    sums = numbers.key_by(lambda v: 0).reduce(lambda a, b: a + b)
    with sums.execute_and_collect("slowly") as results:
        print("first", next(iter(results)), flush=True)
        *_, last = results
    print("sum", last)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[StandaloneCluster]:
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": jvm_options(), "PYTHONPATH": SOURCE}
    with StandaloneCluster(workers=2, cores=4, memory="6g", environment=environment) as started:
        yield started


def settings_of(cluster: StandaloneCluster) -> dict[str, str]:
    return {
        "spark.master": cluster.url,
        "spark.master.ui.port": str(cluster.page_port),
        "spark.driver.memory": "1g",
        "spark.executor.memory": "600m",
    }


def submit(settings: dict[str, str], folder: Path, program: str) -> subprocess.Popen[str]:
    """Start `penstock run` of a program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.py").write_text(textwrap.dedent(program))
    options = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
    return subprocess.Popen(
        [*RUN, *options, "job.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def outcome(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        said, errors = process.communicate(timeout=RUN_SECONDS)
    finally:
        process.kill()
    return process.returncode, said, errors


def held(cluster: StandaloneCluster) -> int:
    slots: int = cluster.state()["coresused"]
    return slots


@pytest.mark.soak
def test_jobs_wait_for_executors_that_come_late(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """Jobs submitted right after the start of a cluster would fail, as there are no slots yet.

    And of two that don't fit side by side one would fail, or each hold a part of what the other one needs.
    """
    for name in ("worker-0", "worker-1"):
        cluster.kill(name)
    settings = {**settings_of(cluster), "parallelism.default": "2"}
    jobs = [submit(settings, tmp_path / str(number), COUNT) for number in range(2)]
    wait_until(lambda: len(cluster.state()["activeapps"]) == 2, "the applications have not come", RUN_SECONDS)
    assert [job.poll() for job in jobs] == [None, None]
    for name in ("worker-2", "worker-3"):
        cluster.start_worker(name)

    for job in jobs:
        code, said, errors = outcome(job)
        assert (code, COUNTED in said) == (0, True), errors


@pytest.mark.soak
def test_too_few_slots_are_told_with_who_holds_them(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """A job would wait without end, and nobody would know for whom."""
    settings = {**settings_of(cluster), "parallelism.default": "2"}
    wait_until(lambda: held(cluster) == 0, "slots of earlier jobs are still held", RUN_SECONDS)
    first = submit(settings, tmp_path / "first", SLOWLY.replace("NUMBERS", "10**9"))
    try:
        wait_until(lambda: held(cluster) == 5, "the first job does not run", RUN_SECONDS)
        second = submit({**settings, "slot.request.timeout": "5 s"}, tmp_path / "second", COUNT)
        code, _, errors = outcome(second)
    finally:
        first.send_signal(signal.SIGINT)
        outcome(first)
    assert code == 1
    line = " ".join(errors.split())
    assert re.search(r"NotEnoughSlotsError: this job needs 6 slots at once and after \d+ s", line), errors
    assert f"{cluster.url} has given 3 of 6 to this application. The cluster has 8 slots on 2 workers, 0 free" in line
    assert "'penstock (job.py)' of" in line and "(5, app-" in line and "slot.request.timeout" in line
    assert "org.apache" not in errors and "WARN" not in errors


def test_a_master_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    """Spark tries for a minute, and fills the screen with Java."""
    code, _, errors = outcome(submit({"spark.master": "spark://127.0.0.1:9"}, tmp_path, COUNT))
    assert code == 1
    assert "MasterUnreachableError: no Spark master answers at spark://127.0.0.1:9 (127.0.0.1:9: Connection" in errors
    assert "waiting for the Spark master: 127.0.0.1:9: Connection" in errors
    assert "org.apache" not in errors and len(errors.splitlines()) <= 6, errors


@pytest.mark.soak
def test_an_executor_that_is_killed_is_replaced(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """A machine that fails would end the job, though the cluster has put another executor in its place."""
    settings = {
        **settings_of(cluster),
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
    }
    wait_until(lambda: held(cluster) == 0, "slots of earlier jobs are still held", RUN_SECONDS)
    job = submit(settings, tmp_path, SLOWLY.replace("NUMBERS", "4_000"))
    assert job.stdout is not None
    assert job.stdout.readline() == "first 0\n", job.stderr
    killed = [
        pid
        for name, worker in cluster.pids.items()
        if name != "master"
        for pid, _, command in processes(worker)
        if "CoarseGrainedExecutorBackend" in command
    ]
    os.kill(killed[0], signal.SIGKILL)

    code, said, errors = outcome(job)
    assert (code, said) == (0, f"sum {sum(range(4_000))}\n"), errors
    assert "restart" in errors


PROGRAM = """
    import importlib, os, sys
    from pathlib import Path
    import beside
    import package
    from penstock.common import Configuration
    from penstock.datastream import MapFunction, RuntimeExecutionMode, StreamExecutionEnvironment

    class Seen(MapFunction):
        def __init__(self, *names):
            self.names = names

        def open(self, context):
            self.found = {name: importlib.import_module(name) for name in self.names}

        def map(self, value):
            versions = {name: module.VERSION for name, module in self.found.items()}
            files = [module.__file__ for module in self.found.values()]
            data = Path("data/rules.txt").read_text() if os.path.exists("data") else None
            where = [entry for entry in [*sys.path, *files, os.getcwd()] if entry.startswith(CLIENT)]
            return versions, data, where

    CLIENT = os.getcwd()
    FOREIGN = ("extra", "folder_module", "of_zip", "of_wheel", "of_requirements")

    def job(mode, first):
        configuration = Configuration()
        for key, value in SETTINGS.items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_runtime_mode(mode)
        if first:
            env.add_python_file("libs/one/extra.py")
            env.add_python_file("libs/folder")
            env.add_python_file("libs/of_zip.zip")
            env.add_python_file("libs/of_wheel-1.0-py3-none-any.whl")
            env.add_python_archive("libs/data.zip", "data")
            env.set_python_requirements("requirements.txt", "wheels")
        else:
            env.add_python_file("libs/two/extra.py")
        own = ("beside", "package", "package.inner")
        seen = env.from_collection([1]).map(Seen(*own, *(FOREIGN if first else ("extra",))))
        # Of a module beside the script: records and functions are pickled with its name.
        seen = seen.map(beside.Boxed).map(package.opened)
        with seen.execute_and_collect() as results:
            versions, data, where = next(iter(results))
        print(mode.name, "first" if first else "second", *versions.values(), data, where)

    for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
        job(mode, True)
        job(mode, False)
"""


def test_code_wheels_and_data_travel(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """A program that runs on a laptop would not on a cluster, or with the modules of another job."""
    client = tmp_path / "client"
    texts = {
        "beside.py": "VERSION = 'beside'\n\nclass Boxed:\n    def __init__(self, value):\n        self.value = value\n",
        "package/__init__.py": "VERSION = 'package'\n\ndef opened(box):\n    return box.value\n",
        "package/inner.py": "VERSION = 'inner'\n",
        "libs/one/extra.py": "VERSION = 'one'\n",
        "libs/two/extra.py": "VERSION = 'two'\n",
        "libs/folder/folder_module.py": "VERSION = 'folder'\n",
        "requirements.txt": "of-requirements==1.0\n",
    }
    for name, text in texts.items():
        (client / name).parent.mkdir(parents=True, exist_ok=True)
        (client / name).write_text(text)
    (client / "wheels").mkdir()
    pack(client / "libs" / "of_zip.zip", {"of_zip.py": "VERSION = 'zip'\n"})
    pack(client / "libs" / "data.zip", {"rules.txt": "data"})
    pack_wheel(client / "libs", "of_wheel", "1.0", {"of_wheel.py": "VERSION = 'wheel'\n"})
    of_requirements = {"of_requirements.py": "VERSION = 'requirements'\n"}
    pack_wheel(client / "wheels", "of_requirements", "1.0", of_requirements)
    program = textwrap.dedent(PROGRAM).replace("SETTINGS", repr(settings_of(cluster)))
    (client / "job.py").write_text(program)

    done = subprocess.run(
        [sys.executable, "job.py"],
        cwd=client,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    own, foreign = "beside package inner", "one folder zip wheel requirements"
    assert done.stdout.splitlines() == [
        f"{mode} {job}"
        for mode in ("STREAMING", "BATCH")
        for job in (f"first {own} {foreign} data []", f"second {own} two None []")
    ]


def test_the_command_starts_a_cluster_and_leaves_nothing() -> None:
    """Who tries a cluster on a laptop would find its processes there for days."""
    command = [sys.executable, "-m", "penstock.testing.standalone_cluster", "--workers", "1", "--memory", "1g"]
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": jvm_options()}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as started:
        assert started.stdout is not None
        line = started.stdout.readline()
        assert re.match(r"spark://127\.0\.0\.1:\d+   1 worker of 4 slots   http://127\.0\.0\.1:\d+\n", line), line
        below = [pid for pid, *_ in processes(started.pid)]
        started.send_signal(signal.SIGINT)
        said = started.stdout.read()
    assert started.returncode == 0 and "penstock run --master spark://" in said
    assert len(below) >= 2
    # Its parent has ended, so it is up to the system when a process that was killed disappears.
    wait_until(lambda: not [pid for pid in below if Path(f"/proc/{pid}").exists()], "processes are left")


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_fifty_submissions(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """One of fifty that fails on an idle cluster is one a day for who submits each half hour."""

    def run(number: int) -> tuple[int, str, float]:
        began = time.monotonic()
        # 2 and 6 slots: some fit side by side on the cluster's 8, others wait.
        settings = {**settings_of(cluster), "parallelism.default": str(1 + number % 2), "slot.request.timeout": "1 h"}
        code, said, errors = outcome(submit(settings, tmp_path / str(number), COUNT))
        took = time.monotonic() - began
        print(f"{number}: exit code {code} after {took:.0f} s", flush=True)
        return code, said + errors, took

    with ThreadPoolExecutor(4) as several:
        done = list(several.map(run, range(50)))
    seconds = sorted(took for *_, took in done)
    ran = sum(code == 0 for code, *_ in done)
    print(f"{ran} of 50 submissions ran, in {seconds[25]:.0f} s (median), {seconds[-1]:.0f} s at most")
    assert [text for code, text, _ in done if code != 0 or COUNTED not in text] == []


RESTARTED = {
    "execution.checkpointing.interval": "300 ms",
    "restart-strategy.type": "fixed-delay",
    "slot.request.timeout": "15 s",
}


def started(
    cluster: StandaloneCluster, folder: Path, parallelism: int, numbers: str, attempts: int = 1
) -> subprocess.Popen[str]:
    """A job that runs, and restarts."""
    others = {
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "restart-strategy.fixed-delay.attempts": str(attempts),
        "parallelism.default": str(parallelism),
    }
    settings = {**settings_of(cluster), **RESTARTED, **others}
    job = submit(settings, folder, SLOWLY.replace("NUMBERS", numbers))
    assert job.stdout is not None and job.stdout.readline() == "first 0\n", job.stderr
    return job


def executors(cluster: StandaloneCluster, worker: str) -> list[int]:
    return [pid for pid, _, command in processes(cluster.pids[worker]) if "CoarseGrainedExecutorBackend" in command]


def kill_executors(cluster: StandaloneCluster, worker: str) -> None:
    for pid in executors(cluster, worker):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.soak
def test_a_worker_that_is_lost_for_good(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """A job would restart without end for slots that never come, and nobody would know why."""
    wait_until(lambda: held(cluster) == 0, "slots of earlier jobs are still held", RUN_SECONDS)
    job = started(cluster, tmp_path, 2, "10**9")
    lost = next(name for name in cluster.pids if name != "master")
    kill_executors(cluster, lost)
    cluster.kill(lost)
    code, _, errors = outcome(job)
    cluster.start_worker("in-its-place")
    assert code == 1
    last = " ".join(errors[errors.index("penstock.NotEnoughSlotsError") :].split())
    assert re.match(
        r"penstock.NotEnoughSlotsError: this job needs 5 slots at once and spark://\S+ has given \d of 5", last
    )
    assert "The cluster has 4 slots on 1 worker" in last and "org.apache" not in errors, errors
    assert errors.count("NotEnoughSlotsError") == 2, "told once, and at the end"


@pytest.mark.soak
def test_a_master_that_dies_beneath_a_job(tmp_path: Path) -> None:
    """A job that has all it needs would end with its master; one that needs an executor would not say what it lacks."""
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": jvm_options(), "PYTHONPATH": SOURCE}
    with StandaloneCluster(workers=1, cores=4, memory="2g", environment=environment) as alone:
        has_all, needs_one = (started(alone, tmp_path / n, 1, n) for n in ("10_000", "10**9"))
        alone.kill("master")
        code, said, errors = outcome(has_all)
        assert (code, said) == (0, f"sum {sum(range(10_000))}\n"), errors
        kill_executors(alone, "worker-0")
        code, _, errors = outcome(needs_one)
    kept = f"Its checkpoints are kept, the newest is {tmp_path / '10**9' / 'checkpoints'}"
    assert kept in errors and "-s latest" in errors, errors
    assert code == 1 and "org.apache" not in errors, errors
    last = " ".join(errors[errors.index("penstock.NotEnoughSlotsError") :].split())
    assert f"{alone.url} has given 0 of 2 to this application. The master does not answer" in last, errors


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_executors_that_are_killed_while_they_are_replaced(
    cluster: StandaloneCluster, tmp_path: Path, seed: int
) -> None:
    """A job would end with its second fault, or Spark would give up the application, and the job with it."""
    random = Random(seed)
    wait_until(lambda: held(cluster) == 0, "slots of earlier jobs are still held", RUN_SECONDS)
    job = started(cluster, tmp_path, 2, "20_000", attempts=1000)
    killed: set[int] = set()

    def others() -> list[int]:
        living = {pid for name in cluster.pids if name != "master" for pid in executors(cluster, name)}
        return sorted(living - killed)

    for _ in range(12):
        wait_until(lambda: others() or job.poll() is not None, "no executor comes", RUN_SECONDS)
        until_s = time.monotonic() + random.choice([0, random.uniform(0, 3)])
        wait_until(lambda until_s=until_s: time.monotonic() >= until_s, "the clock stands")  # type: ignore[misc]
        for pid in random.sample(others(), min(len(others()), random.choice([1, 2]))):
            killed.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    code, said, errors = outcome(job)
    assert (code, said) == (0, f"sum {sum(range(20_000))}\n"), errors
    assert len(killed) >= 12 and "restart" in errors
