"""Recovery: a pipelined job whose workers die or whose functions fail goes on from its latest checkpoint."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import STREAMING, collect, environment, failure_of, no_worker_left, wait_until
from tests.spark.test_lost_workers import CountsAndDies, kill_once, killed, killing, visible

from penstock.common import Encoder, WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream.connectors.file_system import FileSink
from penstock.engine.checkpoint.manifest import VERSION

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()


def settings(tmp_path: Path, **others: str) -> dict[str, str]:
    return {
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "restart-strategy.fixed-delay.delay": "100 ms",
        **others,
    }


class Slowly:
    """Takes its time, so that there are checkpoints before the end."""

    def __call__(self, value: int) -> int:
        if value % 100 == 0:
            time.sleep(0.02)
        return value


@pytest.mark.parametrize(
    "unaligned", [pytest.param("false", id="aligned"), pytest.param("true", id="unaligned", marks=pytest.mark.soak)]
)
def test_workers_killed_in_each_stage(tmp_path: Path, unaligned: str) -> None:
    """Records would be lost or counted twice, in state, in what is collected or in files."""
    deaths, out = tmp_path / "deaths", tmp_path / "out"
    deaths.mkdir()
    env = environment(STREAMING, 2, settings(tmp_path, **{"execution.checkpointing.unaligned.enabled": unaligned}))
    numbers = env.from_source(NumberSequenceSource(0, 19_999), NONE, "numbers").map(Slowly())
    numbers = numbers.map(killing(deaths, "source", 14_000))
    counted = numbers.key_by(lambda v: v % 50).process(CountsAndDies(deaths))
    counted.map(lambda row: f"{row[0]},{row[1]},{row[2]}").sink_to(
        FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    )
    collected = collect(counted)

    assert killed(deaths) == ["CountsAndDies-0", "CountsAndDies-1", "source"], "all of them were killed"
    assert sorted(value for _, _, value in collected) == [*range(20_000)]
    assert Counter(key for key, _, _ in collected) == dict.fromkeys(range(50), 400)
    for key in range(50):
        assert sorted(count for k, count, _ in collected if k == key) == [*range(1, 401)]
    lines = [line for path in visible(out) for line in path.read_text().splitlines()]
    assert sorted(int(line.split(",")[2]) for line in lines) == [*range(20_000)]
    left = [path for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert not left, "a job that has ended well leaves no checkpoint"
    no_worker_left()


class FailsOnce:
    """Raises at a value, once for each name that is not in the folder yet."""

    def __init__(self, folder: Path, at: int) -> None:
        self.folder = folder
        self.at = at

    def __call__(self, value: int) -> int:
        if value == self.at and not (self.folder / "failed").exists():
            (self.folder / "failed").touch()
            raise RuntimeError("not this one")
        return value


def test_a_function_that_fails_is_tried_again(tmp_path: Path) -> None:
    """A moment without a database would end a job that is to run for months."""
    env = environment(STREAMING, 1, settings(tmp_path))
    numbers = env.from_source(NumberSequenceSource(0, 4_999), NONE, "numbers").map(Slowly())
    assert sorted(collect(numbers.map(FailsOnce(tmp_path, 3_000)))) == [*range(5_000)]
    assert (tmp_path / "failed").exists()


def test_checkpoints_are_seen_while_the_job_runs(tmp_path: Path) -> None:
    """Size and duration of checkpoints would be unknown until they are too large."""
    env = environment(STREAMING, 1, settings(tmp_path))
    numbers = env.from_source(NumberSequenceSource(0, 10_000_000), NONE, "numbers").map(Slowly())
    numbers.key_by(lambda v: v % 50).sum().filter(lambda v: False).print()
    client = env.execute_async("seen")
    wait_until(lambda: len([one for one in client.get_checkpoints() if not one.failure]) >= 3, "no three checkpoints")
    client.cancel().result()
    # The cancel may have aborted one.
    reports = [report for report in client.get_checkpoints() if not report.failure]
    assert [report.checkpoint_id for report in reports[:3]] == [1, 2, 3]
    assert all(report.duration_ms >= report.async_ms > 0 for report in reports)
    assert all(report.total_bytes >= report.written_bytes > 0 for report in reports)


def test_the_last_failure_is_the_users_own(tmp_path: Path) -> None:
    """After the last restart the user would read of checkpoints, not of the bug."""

    def bug(value: int) -> int:
        return value // (value - 50)

    env = environment(STREAMING, 1, settings(tmp_path, **{"restart-strategy.fixed-delay.attempts": "1"}))
    numbers = env.from_source(NumberSequenceSource(0, 99), NONE, "numbers").map(bug)
    assert "ZeroDivisionError" in failure_of(lambda: collect(numbers))


def test_checkpoints_are_kept_as_asked(tmp_path: Path) -> None:
    """A job that failed for good could not go on from where it was."""
    retention = {"execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION"}
    none = {"restart-strategy.type": "none"}
    env = environment(STREAMING, 1, settings(tmp_path, **retention, **none))
    numbers = env.from_source(NumberSequenceSource(0, 9_999), NONE, "numbers").map(Slowly())

    def fails_late(value: int) -> Any:
        return 1 // 0 if value == 9_000 else value

    assert "ZeroDivisionError" in failure_of(lambda: collect(numbers.map(fails_late)))
    (manifest,) = (tmp_path / "checkpoints").glob("*/chk-*/_metadata")
    kept = json.loads(manifest.read_text())
    assert [operator["name"] for operator in kept["operators"]] == ["Source: numbers"] or kept["operators"]
    assert kept["version"] == VERSION


class DiesAtTheGate(CountsAndDies):
    """Kills its worker once the file is there."""

    def __init__(self, gate: Path) -> None:
        super().__init__(gate.parent)
        self.gate = gate

    def process_element(self, value: int, ctx: Any) -> Any:
        self.seen = 0
        if self.gate.exists():
            kill_once(self.gate.parent, "gate-killed")
        yield from super().process_element(value, ctx)


@pytest.mark.parametrize(
    "allowed",
    [pytest.param(True, id="duplicates allowed", marks=pytest.mark.soak), pytest.param(False, id="exactly once")],
)
def test_a_checkpoint_that_is_damaged(tmp_path: Path, caplog: pytest.LogCaptureFixture, allowed: bool) -> None:
    """A bad block on a disk would end the job, though the checkpoint before is sound; or bring output twice."""
    checkpoints, gate = tmp_path / "checkpoints", tmp_path / "gate"
    more = {"execution.checkpointing.num-retained": "3", "execution.state-recovery.allow-duplicates": str(allowed)}
    env = environment(STREAMING, 1, settings(tmp_path, **more))
    numbers = env.from_source(NumberSequenceSource(0, 19_999), NONE, "numbers").map(Slowly())
    counted = numbers.key_by(lambda v: v % 50).process(DiesAtTheGate(gate))

    def damage() -> None:
        wait_until(lambda: len([*checkpoints.glob("*/chk-*/_metadata")]) == 3, "there are no three checkpoints", 60)
        newest = max(checkpoints.glob("*/chk-*/_metadata"), key=lambda path: int(path.parent.name[4:]))
        manifest = json.loads(newest.read_text())
        files = [
            file["path"]
            for operator in manifest["operators"]
            for part in operator["subtasks"]
            for file in part["state"].get("keyed", [])
        ]
        job = newest.parents[1]
        gate.touch()
        for number in range(int(newest.parent.name[4:]), int(newest.parent.name[4:]) + 2):
            for path in {*(job / "shared").glob(f"{number}-*"), job / files[-1]}:
                if path.exists():
                    path.write_bytes(b"x" * path.stat().st_size)

    thread = threading.Thread(target=damage)
    thread.start()
    if not allowed:
        failure = failure_of(lambda: collect(counted))
        thread.join()
        assert "would be written a second time" in failure and "--allow-duplicates" in failure
        return
    collected = collect(counted)
    thread.join()
    assert "falls back to the previous checkpoint" in caplog.text
    assert {value for _, _, value in collected} == {*range(20_000)}
    assert max(Counter(key for key, _, _ in collected).values()) >= 400
