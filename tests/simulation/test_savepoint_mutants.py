"""Mutation tests for savepoints: each fault is put into the runtime on purpose, and a seed must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import found_by_seeds

from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.jobmaster.ending import JobEnding
from penstock.engine.runtime.network.alignment import AtLeastOnceAlignment
from penstock.engine.runtime.network.buffer import CheckpointBarrier
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.task.restore import KeyedChain

pytestmark = pytest.mark.simulation


def drained_behind_a_stop(patch: pytest.MonkeyPatch) -> None:
    """A job that is about to stop with a savepoint may be drained as well, at once."""
    patch.setattr(JobEnding, "is_requested", property(lambda self: self._draining is not None))
    patch.setattr(CheckpointCoordinator, "when_settled", lambda self, call: call())


def checkpoint_behind_a_drain(patch: pytest.MonkeyPatch) -> None:
    """Checkpoints begin while the sources of a drained job come to their end, and commit what has fired."""
    takes_checkpoints = property(lambda self: self._job.regions.all_running and not self.is_closing)
    patch.setattr(JobEnding, "takes_checkpoints", takes_checkpoints)


def back_behind_the_stop(patch: pytest.MonkeyPatch) -> None:
    """A job that fails while it stops with a savepoint is restored from the checkpoint before it."""
    patch.setattr(CheckpointCoordinator, "stopped", False)


def changes_lost_to_a_savepoint(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint after a savepoint, or after an upload that failed, holds what has changed since that one only."""
    patch.setattr(KeyedChain, "next_is_full", property(lambda self: not self.files))


def savepoints_not_aligned(patch: pytest.MonkeyPatch) -> None:
    """In AT_LEAST_ONCE mode, savepoints are as checkpoints: a job that starts from one sees records again."""

    def barrier(self: AtLeastOnceAlignment, channel: Any, element: CheckpointBarrier) -> None:
        n = element.checkpoint_id
        if n > self._last_counted and n not in self._aborted:
            self._pending.setdefault(n, (element, set()))[1].add(channel)
            self._count()

    patch.setattr(AtLeastOnceAlignment, "_barrier", barrier)


OFTEN = {"checkpoint_at_steps": tuple(range(0, 800, 60)), "checkpoint_timeout_ms": 3_000, "cancel_at_step": None}
FAULTS: dict[Callable[[pytest.MonkeyPatch], None], tuple[int, dict[str, Any]]] = {
    checkpoint_behind_a_drain: (26, {
        **OFTEN, "checkpoint_at_steps": tuple(range(0, 1_500, 9)), "savepoint_at_steps": tuple(range(50, 900, 30)),
        "stop_rate": 1.0, "drain_rate": 1.0, "driver_crash_rate": 1.0, "crash_rate": 0.0, "upload_ms_max": 0,
        "abort_rate": 0.0, "trigger_lost": 0.0, "upload_failure_rate": 0.0,
    }),
    drained_behind_a_stop: (11, {**OFTEN, "savepoint_at_steps": (90, 92, 94, 96), "stop_rate": 1.0, "drain_rate": 0.5}),
    back_behind_the_stop: (263, {**OFTEN, "savepoint_at_steps": (150,), "stop_rate": 1.0, "stop_crash_rate": 1.0}),
    changes_lost_to_a_savepoint: (425, {
        **OFTEN, "checkpoint_at_steps": tuple(range(0, 800, 25)), "savepoint_at_steps": tuple(range(60, 700, 50)),
        "stop_rate": 0.0, "crash_rate": 0.9, "growth_max": 1_000.0, "rescale_rate": 0.0, "cached_entries": None,
        "alignment_limits": AlignmentLimits(), "driver_crash_rate": 0.0, "upload_ms_max": 0, "abort_rate": 0.0,
        "trigger_lost": 0.0, "upload_failure_rate": 0.0,
    }),
    savepoints_not_aligned: (178, {**OFTEN, "exactly_once": False, "savepoint_at_steps": (90, 150, 240, 330)}),
}  # fmt: skip
"""The seed that is known to find it, where the search begins, and circumstances that make it show soon."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass savepoints that lose or double output, and its result would be worthless."""
    first, provoked = FAULTS[fault]
    fault(monkeypatch)
    found_by_seeds(monkeypatch, first, provoked, all_kinds=fault is checkpoint_behind_a_drain)
