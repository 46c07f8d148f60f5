"""Workers, the JVM and the driver are killed in every superstep: results are right, and no checkpoint is lost."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e import supersteps_killed
from tests.e2e.supersteps_killed import NUMBERS, SUPERSTEPS

pytestmark = [
    pytest.mark.own_jvm,
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

SETTINGS = {
    "spark.master": "local[5]",
    "execution.checkpointing.interval": "100ms",
    "execution.checkpointing.max-concurrent-checkpoints": "2",
    "penstock.checkpointing.each-superstep": "true",
    "execution.checkpointing.tolerable-failed-checkpoints": "100000",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "100ms",
}
PATIENCE_S = 600


def run(folder: Path, kinds: list[str]) -> None:
    """Run the program until it has ended, each time from its newest checkpoint."""
    settings = {**SETTINGS, "execution.checkpointing.dir": str(folder / "checkpoints")}
    defaults = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]
    runs = 0
    while not (folder / "results").exists():
        assert runs <= SUPERSTEPS, (folder / "log").read_text()[-5_000:]
        runs += 1
        going_on = ["-s", "latest"] if any((folder / "checkpoints").glob("*/chk-*/_metadata")) else []
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", *defaults, *going_on]
        with (folder / "log").open("a") as log:
            program = subprocess.Popen(
                [*command, supersteps_killed.__file__, str(folder), *kinds],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                program.wait(PATIENCE_S)
            finally:
                # What a killed driver has left.
                if program.poll() is not None or (folder / "results").exists():
                    end_group(program.pid)


def end_group(leader: int) -> None:
    """End the processes of a session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


@pytest.mark.soak
@pytest.mark.parametrize("kinds", [["worker"], ["driver", "worker"], ["jvm"]], ids="-".join)
def test_kills_in_every_superstep(kinds: list[str], tmp_path: Path) -> None:
    """A killed process would change the results, or cost more than one superstep that was complete."""
    run(tmp_path, kinds)
    assert ast.literal_eval((tmp_path / "results").read_text()) == [(number, SUPERSTEPS) for number in range(NUMBERS)]
    assert len(list(tmp_path.glob("killed-*"))) == SUPERSTEPS - 1
    begun = [int(line) for line in (tmp_path / "begun").read_text().split()]
    assert len(begun) == SUPERSTEPS and begun == sorted(begun), f"runs begin at {begun}"
    # Run n begins after the kill in superstep n.
    assert all(first >= killed - 1 for killed, first in enumerate(begun)), f"runs begin at {begun}"
