"""Keyed state in a store outside the workers without older versions, behind its log, under all faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import FIRST_SWEPT, sweeps
from tests.simulation.undisturbed import CallCounter, circumstances_with, programs_that

from penstock.engine.state.backends.versioned.logged import LoggedStore
from penstock.engine.state.backends.versioned.store import StoreVersion
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.external_store import SubtaskState
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.runs import run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 10
SEEDS_IN_SOAK = 10_000


def circumstances(seed: int) -> Circumstances:
    """Return drawn circumstances with many checkpoints, none damaged: such a store can't start from an older one."""
    return circumstances_with(seed, external_store=True, external_failure_rate=0.002, damage_rate=0.0)


def programs(count: int, first: int = 0) -> Iterator[tuple[int, Program]]:
    """Yield pipelined programs, each with its seed."""
    return programs_that(lambda program: not program.batched, count, first)


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_an_external_store_gives_what_a_plain_evaluation_gives(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """State would belong to another checkpoint, or to a run that counted as dead."""
    begun = CallCounter(monkeypatch, LoggedStore.begin_with, lambda store, versions: bool(versions))
    applied = CallCounter(monkeypatch, LoggedStore.completed)
    for seed, program in programs(seeds, FIRST_SWEPT):
        run_program(program, circumstances(seed), seed, named=False)
    assert begun.count > 3 * seeds and applied.count > 3 * seeds, "hardly any state was restored, or stored"


def applied_before_it_is_complete(patch: pytest.MonkeyPatch) -> None:
    """The store has a checkpoint's state as soon as it is written, and restores do not check versions."""
    written = LoggedStore.all_written

    def applying(self: LoggedStore, version: StoreVersion) -> StoreVersion:
        whole = written(self, version)
        self.completed(version.version)
        return whole

    patch.setattr(LoggedStore, "all_written", applying)
    patch.setattr(SubtaskState, "check_versions", lambda *arguments: None)


def without_its_log(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint relies on the application after its completion, but a task may learn of that too late, or never."""
    written = LoggedStore.all_written
    patch.setattr(
        LoggedStore, "all_written", lambda self, version: msgspec.structs.replace(written(self, version), log=[])
    )


FAULTS = [applied_before_it_is_complete, without_its_log]
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {applied_before_it_is_complete: 115, without_its_log: 247}
"""The seed that is known to find the fault. The search starts there."""
PROVOKED: dict[Callable[[pytest.MonkeyPatch], None], dict[str, Any]] = {
    applied_before_it_is_complete: {
        "in_flight_ms": 0, "checkpoint_at_steps": tuple(range(0, 800, 40)), "crash_at_steps": (100, 200, 300, 400),
        "crash_rate": 0.5, "cancel_at_step": None, "rescale_at_steps": (), "upload_ms_max": 200, "stop_rate": 0.0,
    },
}  # fmt: skip
"""Circumstances that make a rare fault show soon."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a store that is ahead of its checkpoints, and its result would be worthless."""
    fault(monkeypatch)
    provoked = {"external_failure_rate": 0.0, **PROVOKED.get(fault, {})}
    until_found(
        monkeypatch,
        programs(1_000, FIRST.get(fault, 0)),
        lambda seed, program: run_program(
            program, dataclasses.replace(circumstances(seed), **provoked), seed, named=False
        ),
    )
