"""Which subtasks of earlier attempts a writer answers for."""

from __future__ import annotations

import pytest

from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.testing.conformance.sink import SimpleSinkContext


@pytest.mark.parametrize("earlier", [1, 2, 3, 8])
@pytest.mark.parametrize("at_checkpoint", [1, 2, 5])
@pytest.mark.parametrize("now", [1, 2, 4])
def test_each_has_one_writer_after_a_restore(earlier: int, at_checkpoint: int, now: int) -> None:
    """A transaction would be ended by two writers at once, or stay open, with its locks, for ever."""
    states = [(subtask, at_checkpoint) for subtask in range(at_checkpoint)]
    writers = [
        FormerSubtasks.of(SimpleSinkContext(subtask=subtask, parallelism=now, is_restored=True), states[subtask::now])
        for subtask in range(now)
    ]
    for former in range(earlier):
        assert sum(writer.include(former) for writer in writers) == 1


@pytest.mark.parametrize("earlier", [1, 2, 5])
def test_each_has_one_writer_when_a_job_starts_from_its_beginning(earlier: int) -> None:
    """Transactions of an attempt that died before the first checkpoint would stay open."""
    writers = [FormerSubtasks.of(SimpleSinkContext(subtask=subtask, parallelism=2), []) for subtask in range(2)]
    for former in range(earlier):
        assert sum(writer.include(former) for writer in writers) == 1


def test_a_writer_without_state_after_a_restore_answers_for_none() -> None:
    """After rescaling up it would end transactions of the writer that has their state and commits them."""
    assert not FormerSubtasks.of(SimpleSinkContext(subtask=3, parallelism=4, is_restored=True), []).owners


def test_a_job_without_checkpointing_ends_nothing() -> None:
    """A task of a batch job that Spark runs again would end what its first run has prepared, which may count."""
    assert not FormerSubtasks.of(SimpleSinkContext(checkpointing=False), [(0, 1)]).owners
