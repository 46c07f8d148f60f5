"""Mutation tests of the simulator: some structured iteration must find each fault of supersteps."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.simulation.test_supersteps import PROGRAMS, results_of

from penstock.common.job_status import JobStatus
from penstock.engine.runtime.network.buffer import EndOfSuperstep
from penstock.engine.runtime.network.superstep_edges import SuperstepEdge, SuperstepFeedbackEdge
from penstock.engine.runtime.task.superstep_decisions import Decisions
from penstock.engine.runtime.task.superstep_feedback import SuperstepFeedback
from penstock.engine.runtime.task.supersteps import Supersteps
from penstock.hosts.simulator import Circumstances

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
    queue_of = SuperstepFeedback._queue_of
    patch.setattr(SuperstepFeedback, "_queue_of", lambda self, superstep: queue_of(self, min(superstep, self._number)))


def heads_differ(patch: pytest.MonkeyPatch) -> None:
    """A head decides by what it has got itself, and not by what all have."""
    decide = SuperstepFeedback._decide

    def alone(self: Any) -> None:
        decided = self._decisions.decided
        decide(self)
        if self._decisions.decided > decided and not self._fed.get(self._decisions.decided):
            self._decisions._last = self._decisions.decided

    patch.setattr(SuperstepFeedback, "_decide", alone)


def barrier_at_once(patch: pytest.MonkeyPatch) -> None:
    """A barrier leaves a head when it arrives, and not at the boundary that all heads agree on."""
    patch.setattr(SuperstepFeedback, "defers", lambda self, checkpoint_id, take, decline: False)


def barrier_not_agreed(patch: pytest.MonkeyPatch) -> None:
    """A barrier leaves a head at its next boundary, whatever waits at other heads."""

    def newest(self: Any) -> int:
        return 1 << 60

    patch.setattr(Supersteps, "checkpoint", property(newest))


def workset_not_stored(patch: pytest.MonkeyPatch) -> None:
    """A snapshot has no workset."""
    leaves = SuperstepFeedback.barrier_leaves

    def without(self: Any, checkpoint_id: int, savepoint: bool) -> None:
        kept, self._fed = self._fed, {}
        leaves(self, checkpoint_id, savepoint)
        self._fed = kept

    patch.setattr(SuperstepFeedback, "barrier_leaves", without)


def number_not_restored(patch: pytest.MonkeyPatch) -> None:
    """A restored iteration begins with superstep 0 again."""
    opened = SuperstepFeedback.open

    def at_zero(self: Any) -> None:
        if self._head.place is not None:
            place = self._head.place
            self._head.place = place.__class__(0, place.last, place.quiet, pickle.dumps({-1: {}}))
        opened(self)

    patch.setattr(SuperstepFeedback, "open", at_zero)


def aggregates_counted_twice(patch: pytest.MonkeyPatch) -> None:
    """All channels of a task carry what it has aggregated."""
    sent = SuperstepEdge.end_superstep
    patch.setattr(SuperstepEdge, "end_superstep", lambda self, end: sent(self, lambda index: end(0)))


def records_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A sender says that it has fed back nothing."""
    element = SuperstepFeedbackEdge.element

    def none(self: Any, item: Any) -> None:
        self._records = 0
        element(self, item)

    patch.setattr(SuperstepFeedbackEdge, "element", none)


def further_ahead(patch: pytest.MonkeyPatch) -> None:
    """A head begins one superstep more than its slack allows."""
    may_follow = Decisions.may_follow

    def one_more(self: Any, number: int) -> bool:
        return may_follow(self, number) or (number > 0 and may_follow(self, number - 1))

    patch.setattr(Decisions, "may_follow", one_more)


def boundary_at_once(patch: pytest.MonkeyPatch) -> None:
    """A barrier leaves a head behind the superstep in which it is, although others are in another one."""
    proceed = SuperstepFeedback._proceed

    def here(self: Any) -> None:
        if self._boundary is not None:
            self._boundary = self._number
            with pytest.MonkeyPatch.context() as now:
                now.setattr(self._decisions, "decided", self._number)
                proceed(self)
        else:
            proceed(self)

    patch.setattr(SuperstepFeedback, "_proceed", here)


def one_quiet_superstep(patch: pytest.MonkeyPatch) -> None:
    """One superstep that feeds nothing back ends the iteration, although feedback may wait at a head."""
    decide = Decisions.decide

    def at_once(self: Any) -> None:
        decide(self)
        if self._last is None and (self._idle or self._unchanged):
            self._last = self.decided

    patch.setattr(Decisions, "decide", at_once)


def too_much_awaited(patch: pytest.MonkeyPatch) -> None:
    """A head sleeps until more has come than its senders send."""
    awaited = SuperstepFeedback.awaited.fget
    assert awaited is not None
    patch.setattr(SuperstepFeedback, "awaited", property(lambda self: awaited(self) + self._decisions.decided))


FAULTS: list[tuple[Callable[[pytest.MonkeyPatch], None], bool]] = [
    (lost_end, False),
    (doubled_end, False),
    (early_end, False),
    (ahead_counts_as_now, False),
    (heads_differ, False),
    (aggregates_counted_twice, False),
    (records_not_counted, False),
    (further_ahead, False),
    (one_quiet_superstep, False),
    (too_much_awaited, False),
    (boundary_at_once, True),
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
    for seed in range(2):
        assert is_right(name, seed, often(seed))
