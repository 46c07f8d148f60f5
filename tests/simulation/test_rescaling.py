"""Other parallelism while a job runs: as often as its user wants, under all faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import sweeps
from tests.simulation.undisturbed import CallCounter, circumstances_with

from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.runs import run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 1
SEEDS_IN_SOAK = 10_000
FIRST_SEED = 38
"""From there on several jobs are rescaled: of most, a checkpoint that could be gone on from comes too late."""


def circumstances(seed: int) -> Circumstances:
    """Drawn ones, with a user who wants other numbers of subtasks all the time, and checkpoints that may complete."""
    return circumstances_with(
        seed,
        rescale_at_steps=tuple(range(40, 1_200, 40)),
        state_reads_at_steps=(),
        update_at_steps=(),
    )


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_a_rescaled_job_gives_what_a_plain_evaluation_gives(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, state or timers would be lost or doubled when their subtasks change."""
    begun = CallCounter(monkeypatch, JobRescaling.attempts_begin, lambda rescaling: rescaling.is_closing)
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        run_program(generate(seed), circumstances(seed), seed, named=False)
    assert begun.count >= max(1, seeds // 10), "hardly any job was rescaled"


def cancelled_in_place_of_rescaled(patch: pytest.MonkeyPatch) -> None:
    """Regions that are closed to be started again count as cancelled."""
    patch.setattr(Region, "replace", lambda self, now_ms: self.attempt.cancel())


class Nothing:
    """A recovery that has forgotten everything."""

    manifest = None
    path = ""

    def enumerator_states(self, sources: Any) -> dict[int, Any]:
        return {}

    def restore(self, vertices: Any, graph: Any) -> dict[Any, Any]:
        return {}


def begun_from_the_start(patch: pytest.MonkeyPatch) -> None:
    """The next attempts are restored from nothing."""
    next_attempt, begin = Region.next_attempt, Region.begin
    replaced: set[Region] = set()

    def noting(self: Region, graph: Any, now_ms: int) -> None:
        if self.is_replaced:
            replaced.add(self)
        next_attempt(self, graph, now_ms)

    def forgetful(self: Region, recovery: Any, graph: Any, now_ms: int) -> None:
        begin(self, Nothing() if self in replaced else recovery, graph, now_ms)  # type: ignore[arg-type]
        replaced.discard(self)

    patch.setattr(Region, "next_attempt", noting)
    patch.setattr(Region, "begin", forgetful)


FAULTS = [cancelled_in_place_of_rescaled, begun_from_the_start]
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {cancelled_in_place_of_rescaled: 16, begun_from_the_start: 68}
"""The seed that is known to find it. The search begins there and goes on."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a job master that loses a job while it changes, and its result would be worthless."""
    fault(monkeypatch)
    first = FIRST.get(fault, 0)
    until_found(
        monkeypatch,
        ((seed, generate(seed)) for seed in range(first, first + 1_000)),
        lambda seed, program: run_program(program, circumstances(seed), seed, named=False),
    )
