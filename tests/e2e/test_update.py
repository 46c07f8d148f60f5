"""`penstock update`: a running job gets the functions of another program, between two records."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from tests.spark.jobs import workers
from tests.spark.test_lost_workers import visible

pytestmark = pytest.mark.e2e

RECORDS = 1_000_000
"""More than it has the time for: the job is stopped when all is seen."""
KEYS = 4
PROGRAM = f"""
import sys
from dataclasses import dataclass

from penstock.common import Encoder, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor


@dataclass
class Seen:
    key: int
    version: str
    count: int = 0


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        assert isinstance(value, Seen)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        value.count = count
        value.version += "/old"
        yield value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.enable_checkpointing(500)
source = DataGeneratorSource(lambda n: n, {RECORDS}, RateLimiterStrategy.per_second(1_000))
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
tagged = numbers.map(lambda n: Seen(n % {KEYS}, "old")).uid("tagged")
counted = tagged.key_by(lambda seen: seen.key).process(Count()).uid("counted")
counted.map(lambda seen: f"{{seen.key}} {{seen.count}} {{seen.version}}", Types.STRING()).uid("lines").sink_to(
    FileSink.for_row_format(sys.argv[1], Encoder.simple_string_encoder())
    .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    .build()
).uid("files")
env.execute("counts")
"""
_SECONDS = 120


SETTINGS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "100ms",
}
"""Of a job whose workers are killed."""


def penstock(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.service.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)


def counts_in(out: Path) -> dict[str, list[tuple[int, str]]]:
    """What was committed, by key: each record's place, and the functions that it met."""
    counts: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for path in visible(out):
        for line in path.read_text().splitlines():
            key, count, version = line.split()
            counts[key].append((int(count), version))
    return {key: sorted(seen) for key, seen in counts.items()}


def test_a_running_job_gets_other_functions(tmp_path: Path) -> None:
    """A condition could be mended only by stopping the job; or some records would meet both functions, or be lost."""

    def program(name: str, *replacements: tuple[str, str]) -> Path:
        text = PROGRAM
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    def alert(number: int) -> tuple[str, str]:
        return "class Count(", f"class Alert:\n    number = {number}\n\n\nclass Count("

    out = tmp_path / "out"
    first = program("job.py")
    new = program("new.py", ('"old")', '"new")'), ('"/old"', '"/new"'), ("import sys", "# moved\nimport sys"), alert(2))
    broken = program(
        "broken.py", ('"/old"', '"/newer"'), ("self.count = runtime", "self.count = 1 / 0 or runtime"), alert(1)
    )
    other_records = program("records.py", ("    count: int = 0", "    count: float = 0"))
    log = tmp_path / "log"
    command = [sys.executable, "-m", "penstock.service.cli.main", "run", str(first), str(out)]
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as running:
        try:
            deadline = time.monotonic() + _SECONDS
            while not [path for path in visible(out) if path.stat().st_size]:
                assert running.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            refused = penstock("update", "counts", other_records, out)
            assert refused.returncode == 1 and "the class 'Seen' of the script has changed" in refused.stderr
            failed = penstock("update", "counts", broken, out)
            assert failed.returncode == 1 and "nothing has changed" in failed.stderr, failed.stderr
            assert "ZeroDivisionError" in failed.stderr and "1 / 0 or" in failed.stderr, "the user's own traceback"
            same = penstock("update", "counts", first, out)
            assert same.returncode == 1 and "already has these functions" in same.stderr
            done = penstock("update", "counts", new, out)
            assert done.returncode == 0 and "has new functions since checkpoint" in done.stdout, done.stderr
            while not any("new/new" in path.read_text() for path in visible(out)):
                assert running.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            stopped = penstock("stop", "counts", tmp_path / "savepoints")
            assert stopped.returncode == 0, stopped.stderr
            assert running.wait(_SECONDS) == 0, log.read_text()
        finally:
            running.kill()
    counts = counts_in(out)
    assert sorted(counts) == [str(key) for key in range(KEYS)]
    for seen in counts.values():
        assert [count for count, _ in seen] == list(range(1, len(seen) + 1)), "each record once, and no state lost"
        versions = [version for _, version in seen]
        old = versions.index("new/new")
        assert set(versions[:old]) == {"old/old"} and set(versions[old:]) == {"new/new"}, "one moment for all operators"
    assert "restarts" not in log.read_text() and "0 restarts" not in log.read_text()


@pytest.mark.soak
@pytest.mark.own_jvm
@pytest.mark.parametrize("seed", range(2))
def test_workers_are_killed_while_functions_change(tmp_path: Path, seed: int) -> None:
    """Some records would meet old functions in one operator and new ones in another, or be lost, or come twice."""
    random, versions, kills, refusals = Random(seed), 15, 0, 0
    programs = programs_of(tmp_path, versions, "changing")
    out, log = tmp_path / "out", tmp_path / "log"
    settings = [part for key, value in SETTINGS.items() for part in ("-D", f"{key}={value}")]
    command = [sys.executable, "-m", "penstock.service.cli.main", "run", *settings, str(programs[0]), str(out)]
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as running:
        try:
            deadline = time.monotonic() + _SECONDS
            while not counts_in(out):
                assert running.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            for program in programs[1:]:
                deadline = time.monotonic() + _SECONDS
                with ThreadPoolExecutor(1) as pool:
                    while True:
                        updated = pool.submit(penstock, "update", "changing", program, out)
                        # The command needs a second until it asks, and the job half a second for the checkpoint.
                        time.sleep(random.uniform(0, 3))
                        if random.random() < 0.7 and (found := workers(running.pid)):
                            os.kill(random.choice(found), signal.SIGKILL)
                            kills += 1
                        if updated.result().returncode == 0 or "already has these functions" in updated.result().stderr:
                            break
                        refusals += 1
                        assert running.poll() is None and time.monotonic() < deadline, updated.result().stderr
            while not any(seen[-1][1] == f"{versions - 1}/{versions - 1}" for seen in counts_in(out).values()):
                assert running.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            # It may be about to start again.
            while (stopped := penstock("stop", "changing", tmp_path / "savepoints")).returncode:
                assert running.poll() is None and time.monotonic() < deadline, stopped.stderr
            assert running.wait(_SECONDS) == 0, log.read_text()
        finally:
            running.kill()
    print(f"seed {seed}: {versions - 1} updates, {refusals} that failed first, {kills} workers killed")
    for met in versions_met(out):
        assert met == sorted(met) and set(met) == set(range(versions))


@pytest.mark.soak
@pytest.mark.own_jvm
@pytest.mark.parametrize("seed", range(2))
def test_the_driver_is_killed_while_functions_change(tmp_path: Path, seed: int) -> None:
    """A job that is started again would have old functions in one operator and new ones in another; or lose, or double.

    It is started with the new program each second time, otherwise with the one that it had: a user can't know.
    """
    random, versions = Random(seed), 12
    programs = programs_of(tmp_path, versions, f"orphan {seed}")
    out, log, checkpoints = tmp_path / "out", tmp_path / "log", tmp_path / "checkpoints"
    told: Counter[str] = Counter()

    def start(program: Path) -> subprocess.Popen[bytes]:
        settings = ["-D", f"execution.checkpointing.dir={checkpoints}", *(["-s", "latest"] if out.exists() else [])]
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", *settings, str(program), str(out)]
        with log.open("a") as file:
            return subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)

    def count() -> int:
        return sum(map(len, counts_in(out).values())) if out.exists() else 0

    def more(running: subprocess.Popen[bytes]) -> None:
        before, deadline = count(), time.monotonic() + _SECONDS
        while count() <= before:
            assert running.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)

    had = programs[0]
    running = start(had)
    try:
        more(running)
        for program in programs[1:]:
            with ThreadPoolExecutor(1) as pool:
                updated = pool.submit(penstock, "update", f"orphan {seed}", program, out)
                # The command needs half a second until it asks, and the job as long for the checkpoint.
                time.sleep(random.uniform(0.4, 1.6))
                # With all that it has started; or alone, so that its workers notice it by themselves.
                (os.killpg if random.random() < 0.5 else os.kill)(running.pid, signal.SIGKILL)
                running.wait()
                told["done" if updated.result().returncode == 0 else "cut off"] += 1
            if random.random() < 0.5:
                had = program
            running = start(had)
            more(running)
        while (stopped := penstock("stop", f"orphan {seed}", tmp_path / "savepoints")).returncode:
            assert running.poll() is None, stopped.stderr
        assert running.wait(_SECONDS) == 0, log.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    met = versions_met(out)
    assert all(int(had.stem[1:]) == versions[-1] for versions in met), "the program with which it was started last"
    records = sum(map(len, met))
    print(f"seed {seed}: {versions - 1} kills amid updates, {dict(told)}; {records} records, each once, in one version")


def programs_of(folder: Path, versions: int, job: str) -> list[Path]:
    """The program of a job, in versions that differ by what they write at two operators."""
    programs = [folder / f"v{version}.py" for version in range(versions)]
    for version, program in enumerate(programs):
        text = PROGRAM.replace('"old")', f'"{version}")').replace('"/old"', f'"/{version}"')
        program.write_text(text.replace('"counts")\n', f'"{job}")\n'))
    return programs


def versions_met(out: Path) -> list[list[int]]:
    """By key the version that each record has met at all operators. Each must be there once."""
    all_met = []
    for seen in counts_in(out).values():
        assert [count for count, _ in seen] == list(range(1, len(seen) + 1)), "each record once, and no state lost"
        met = [tuple(map(int, version.split("/"))) for _, version in seen]
        assert all(one == other for one, other in met), "one version in all operators"
        all_met.append([one for one, _ in met])
    assert len(all_met) == KEYS
    return all_met
