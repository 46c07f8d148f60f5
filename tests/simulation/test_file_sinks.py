"""A sink that is not the simulator's own: files are committed once, whatever fails, and also without checkpoints."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.simulation.programs import TIGHT, environment, script, scripted, seeds, simulate

from penstock.common import Encoder
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.hosts.simulator import Circumstances
from penstock.hosts.simulator.programs import Record

pytestmark = pytest.mark.simulation
ROWS = 30


def text_of(record: Record) -> str:
    """Return the line of a record."""
    return f"{record[0]} {record[3]}"


def writing(out: Path) -> StreamExecutionEnvironment:
    """Return a program that writes the records of two splits into files."""
    env = environment()
    source = scripted(script(0, ROWS), script(1, ROWS))
    sink = FileSink.for_row_format(str(out), Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "source").map(text_of).sink_to(sink)
    return env


def lines_in(out: Path) -> list[str]:
    """Return the lines that a reader of the folder sees."""
    visible = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return sorted(line for path in visible for line in path.read_text(encoding="utf-8").splitlines())


def failing(seed: int) -> Circumstances:
    """Draw faults from which the job recovers exactly once."""
    random = Random(seed)
    while True:
        drawn = Circumstances.draw(random)
        if drawn.checkpointing and drawn.exactly_once:
            return dataclasses.replace(drawn, cancel_at_step=None, drain_rate=0.0)


def check(out: Path, seed: int, circumstances: Circumstances) -> Any:
    """Run the program, compare its files, and return the simulation."""
    simulation = simulate(writing(out), seed, circumstances)
    simulation.run()
    assert simulation.error is None, simulation.error
    assert lines_in(out) == sorted(f"s{split} {number}" for split in range(2) for number in range(ROWS))
    return simulation


def test_files_without_checkpoints_are_committed_when_the_job_has_ended(tmp_path: Path) -> None:
    """Writers hand their files over behind the end of their data, which the simulator must not take for a record."""
    check(tmp_path, 1, TIGHT)


@pytest.mark.parametrize("seed", seeds(8, 200))
def test_files_hold_each_record_once_under_faults(tmp_path: Path, seed: int) -> None:
    """Files of a lost attempt would be visible, or those of a checkpoint would be missing."""
    check(tmp_path, seed, failing(seed))


def test_the_faults_make_jobs_go_back(tmp_path: Path) -> None:
    """The test above would show nothing."""
    assert sum(check(tmp_path / str(seed), seed, failing(seed)).went_back for seed in range(4))
