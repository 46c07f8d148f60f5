"""Mutation tests of the simulator: some structured iteration must find each fault of supersteps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.simulation.iteration_programs import results
from tests.simulation.test_supersteps import PROGRAMS, results_of

from penstock.common.job_status import JobStatus
from penstock.engine.runtime.network.buffer import EndOfSuperstep
from penstock.engine.runtime.network.superstep_edges import SuperstepEdge, SuperstepFeedbackEdge
from penstock.engine.runtime.task.superstep_feedback import SuperstepFeedback
from penstock.engine.runtime.task.supersteps import Supersteps
from penstock.hosts.simulator import Circumstances
from penstock.iteration import iterate_delta

pytestmark = pytest.mark.simulation

SEEDS = 40
CALM = Circumstances(jump_rate=0.0)


def often(seed: int) -> Circumstances:
    """Return circumstances with checkpoints and crashes at every stage of an iteration."""
    return dataclasses.replace(
        CALM,
        checkpoint_at_steps=tuple(range(0, 800, 20)),
        crash_at_steps=tuple(Random(seed).sample(range(20, 400), 3)),
        crash_rate=0.9,
        channel_rows=1 + seed % 3,
    )


def lost_end(patch: pytest.MonkeyPatch) -> None:
    """A sender does not tell the last head that a superstep has ended."""
    sent = SuperstepEdge.end_superstep

    def all_but_one(self: SuperstepEdge, end: Callable[[int], EndOfSuperstep]) -> None:
        channels = self.gathering.channels
        last = channels.pop() if len(channels) > 1 and self.info.feedback else None
        sent(self, end)
        if last is not None:
            channels.append(last)

    patch.setattr(SuperstepEdge, "end_superstep", all_but_one)


def doubled_end(patch: pytest.MonkeyPatch) -> None:
    """A sender tells each end of a superstep twice."""
    sent = SuperstepEdge.end_superstep

    def twice(self: SuperstepEdge, end: Callable[[int], EndOfSuperstep]) -> None:
        sent(self, end)
        sent(self, end)

    patch.setattr(SuperstepEdge, "end_superstep", twice)


def early_end(patch: pytest.MonkeyPatch) -> None:
    """A head ends a superstep before it has emitted the workset."""
    start = SuperstepFeedback._start

    def ended_first(self: SuperstepFeedback, restored: bool = False) -> None:
        start(self, restored)
        if self._end_superstep in self._work:
            self._work.remove(self._end_superstep)
            self._work.appendleft(self._end_superstep)

    patch.setattr(SuperstepFeedback, "_start", ended_first)


def ahead_counts_as_now(patch: pytest.MonkeyPatch) -> None:
    """Feedback of a sender that runs ahead is taken for feedback of this superstep."""
    unpack = SuperstepFeedback._unpack

    def mixed(self: Any, *arguments: Any) -> None:
        self._later = self._next
        unpack(self, *arguments)

    patch.setattr(SuperstepFeedback, "_unpack", mixed)


def heads_differ(patch: pytest.MonkeyPatch) -> None:
    """A head decides by what it has got itself, and not by what all have."""
    decide = SuperstepFeedback._decide

    def alone(self: Any) -> None:
        own = len(self._next)
        decide(self)
        self._goes_on = self._goes_on and own > 0

    patch.setattr(SuperstepFeedback, "_decide", alone)


def barrier_at_once(patch: pytest.MonkeyPatch) -> None:
    """A barrier leaves a head when it arrives, and not at the boundary that all heads agree on."""
    patch.setattr(SuperstepFeedback, "defers", lambda self, checkpoint_id, take, decline: False)


def barrier_not_agreed(patch: pytest.MonkeyPatch) -> None:
    """A barrier leaves a head at its next boundary, whatever waits at other heads."""
    ended = SuperstepFeedback._end_superstep

    def as_if_all_had_it(self: Any) -> None:
        ended(self)

    def newest(self: Any) -> int:
        return 1 << 60

    patch.setattr(SuperstepFeedback, "_end_superstep", as_if_all_had_it)
    patch.setattr(Supersteps, "checkpoint", property(newest))


def workset_not_stored(patch: pytest.MonkeyPatch) -> None:
    """A snapshot has no workset."""
    leaves = SuperstepFeedback.barrier_leaves

    def without(self: Any, checkpoint_id: int) -> None:
        kept, self._workset = self._workset, self._new_queue()
        leaves(self, checkpoint_id)
        self._workset = kept

    patch.setattr(SuperstepFeedback, "barrier_leaves", without)


def number_not_restored(patch: pytest.MonkeyPatch) -> None:
    """A restored iteration begins with superstep 0 again."""
    opened = SuperstepFeedback.open

    def at_zero(self: Any) -> None:
        if self._head.place is not None:
            self._head.place = self._head.place.__class__(0, self._head.place.has_ended, self._head.place.aggregates)
        opened(self)

    patch.setattr(SuperstepFeedback, "open", at_zero)


def aggregates_counted_twice(patch: pytest.MonkeyPatch) -> None:
    """All channels of a task carry what it has aggregated."""
    sent = SuperstepEdge.end_superstep
    patch.setattr(SuperstepEdge, "end_superstep", lambda self, end: sent(self, lambda index: end(0)))


def own_end_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """A head decides before it has ended the superstep itself: it is not among its own senders."""

    def decide(self: Any) -> None:
        if len(self._ends) == self._channels:
            self._decide()

    patch.setattr(SuperstepFeedback, "_decide_if_complete", decide)


def records_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A sender says that it has fed back nothing."""
    element = SuperstepFeedbackEdge.element

    def none(self: Any, item: Any) -> None:
        self._records = 0
        element(self, item)

    patch.setattr(SuperstepFeedbackEdge, "element", none)


FAULTS: list[tuple[Callable[[pytest.MonkeyPatch], None], bool]] = [
    (lost_end, False),
    (doubled_end, False),
    (early_end, False),
    (ahead_counts_as_now, False),
    (heads_differ, False),
    (aggregates_counted_twice, False),
    (records_not_counted, False),
    (barrier_at_once, True),
    (barrier_not_agreed, True),
    (workset_not_stored, True),
    (number_not_restored, True),
]
"""Each fault, and whether only checkpoints and crashes show it."""


def is_right(name: str, seed: int, circumstances: Circumstances) -> bool:
    """Run a program; return whether it ended with the right results."""
    status, values, _ = results_of(name, seed, circumstances)
    return status is JobStatus.FINISHED and set(values) == set(PROGRAMS[name][1]())


@pytest.mark.parametrize(("fault", "needs_crashes"), FAULTS, ids=lambda one: getattr(one, "__name__", str(one)))
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], needs_crashes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would not notice this fault."""
    fault(monkeypatch)
    for seed in range(SEEDS):
        for name in PROGRAMS:
            try:
                if not is_right(name, seed, often(seed) if needs_crashes else CALM):
                    return
            except AssertionError:
                return
    raise AssertionError(f"no program found {fault.__name__}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_a_fault_crashes_change_nothing(name: str) -> None:
    """The searches above would find crashes, and not their faults."""
    for seed in range(4):
        assert is_right(name, seed, often(seed))


def unchanged(env: Any) -> Any:
    """Return a delta iteration in which both heads only get what the first one emits."""
    pairs = env.from_collection([(number, number) for number in range(5)])
    iteration = iterate_delta(pairs, pairs, 10, key=lambda pair: pair[0], deferred=True)
    return iteration.close_with(iteration.workset, iteration.workset)


def test_a_head_that_does_not_await_its_own_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a head that is not among its own senders can be that early."""
    assert results(unchanged, 3) == [(number, number) for number in range(5)]
    own_end_not_awaited(monkeypatch)
    with pytest.raises(AssertionError, match="EndOfSuperstep"):
        for seed in range(SEEDS):
            results(unchanged, 3, seed)
