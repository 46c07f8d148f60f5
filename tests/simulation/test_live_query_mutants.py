"""Mutation tests of live queries: some seed must find each deliberate fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.test_live_queries import circumstances, programs

from penstock.engine.jobmaster import state_reads
from penstock.engine.jobmaster.state_reads import OpenRead, StateReads
from penstock.engine.runtime.task.events import ReadState
from penstock.engine.runtime.task.state_reader import StateReader
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.runs import run_program

pytestmark = pytest.mark.simulation


def a_read_that_sets_the_key(patch: pytest.MonkeyPatch) -> None:
    """A read sets the current key, as a function does."""
    read = StateReader._read

    def with_key(self: StateReader, event: ReadState) -> None:
        read(self, event)
        for node in self._chain.nodes:
            backend = node.operator.keyed_backend()
            if node.state_id == event.operator and backend is not None and event.keys is not None:
                backend.key = event.keys.value[-1]

    patch.setattr(StateReader, "_read", with_key)


def the_plan_of_the_start(patch: pytest.MonkeyPatch) -> None:
    """Keys are looked up in the plan from before the job was rescaled."""
    init = StateReads.__init__

    def noting(self: Any, job: Any, emit: Any) -> None:
        init(self, job, emit)
        self.first = job.graph

    patch.setattr(StateReads, "__init__", noting)
    present = StateReads._present

    def of_start(self: Any, vertex: int) -> Any:
        now = present(self, vertex)
        first = self.first.vertices[vertex]
        return first if first.parallelism <= now.parallelism else now

    patch.setattr(StateReads, "_present", of_start)


def an_answer_that_comes_twice_counts_twice(patch: pytest.MonkeyPatch) -> None:
    """Answered queries are not recorded."""

    def answered(self: StateReads, number: int) -> tuple[OpenRead | None, Any]:
        read = self._by_message.get(number)
        return read, read.waits_for.pop(number, ()) if read is not None else ()

    patch.setattr(StateReads, "_answered", answered)
    end = StateReads._end

    def remembering(self: StateReads, read: OpenRead, *args: Any, **more: Any) -> None:
        read.waits_for = {}
        end(self, read, *args, **more)

    patch.setattr(StateReads, "_end", remembering)


def never_given_up(patch: pytest.MonkeyPatch) -> None:
    """Queries of tasks that are gone stay open."""
    patch.setattr(StateReads, "advance", lambda self: None)
    patch.setattr(state_reads, "READ_TIMEOUT_MS", 10**9)


FAULTS = [a_read_that_sets_the_key, the_plan_of_the_start, an_answer_that_comes_twice_counts_twice, never_given_up]
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    a_read_that_sets_the_key: 380,
    the_plan_of_the_start: 106,
    never_given_up: 11,
}
"""The seed that is known to find the fault. The search starts there."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not reach the code that it should check, and its result would be worthless."""
    fault(monkeypatch)

    def run(seed: int, program: Program) -> None:
        without_updates = dataclasses.replace(circumstances(seed), update_at_steps=())
        run_program(program, without_updates, seed, named=False)

    until_found(monkeypatch, programs(300, FIRST.get(fault, 0)), run)
