"""Live queries of keyed state, under all faults: each gets one answer, with the state at that time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.simulation.programs import FIRST_SWEPT, sweeps
from tests.simulation.undisturbed import CallCounter, circumstances_with, programs_that

from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.queries import Queries
from penstock.hosts.simulator.runs import run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 2
SEEDS_IN_SOAK = 10_000


def circumstances(seed: int) -> Circumstances:
    """Return drawn circumstances with a user who queries state all the time and rescales the job now and then."""
    return circumstances_with(
        seed,
        state_reads_at_steps=tuple(range(50, 3_000, 15)),
        rescale_at_steps=tuple(range(40, 1_200, 40)),
    )


def programs(count: int, first: int = 0) -> Iterator[tuple[int, Program]]:
    """Yield pipelined programs that count the records of keys, each with its seed."""
    return programs_that(counts_records, count, first)


def counts_records(program: Program) -> bool:
    return not program.batched and any(node.kind in ("echo", "co_echo") for node in program.nodes)


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_each_query_is_answered_once_and_with_what_was_there(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user would wait forever, or get another key's state, or the state of tasks that are gone."""
    answered = CallCounter(monkeypatch, Queries.reply, lambda queries, effect: effect.state is not None)
    for seed, program in programs(seeds, FIRST_SWEPT):
        run_program(program, circumstances(seed), seed, named=False)
    assert answered.count > 20 * seeds, "hardly any query was answered"
