"""When supersteps wait for checkpoints: for that of the boundary before, or for their own if that was aborted."""

from __future__ import annotations

from penstock.engine.runtime.task.boundary_checkpoints import BoundaryCheckpoints


def test_a_superstep_begins_while_its_own_checkpoint_is_written() -> None:
    """Each superstep would wait for the driver, or a failure would repeat more than one that was complete."""
    head = BoundaryCheckpoints(holds=True)
    head.left(1, 1)
    assert head.may_begin(1), "the checkpoint before superstep 0 is the beginning of the job"
    head.left(2, 2)
    assert not head.may_begin(2)
    head.complete(1)
    assert head.may_begin(2)


def test_an_aborted_checkpoint_lets_a_superstep_wait_for_its_own() -> None:
    """Two complete supersteps would be repeated after a checkpoint that was aborted."""
    head = BoundaryCheckpoints(holds=True)
    head.restored(4)
    head.left(8, 5)
    head.left(9, 6)
    head.abort(8)
    assert not head.may_begin(6)
    head.complete(9)
    assert head.may_begin(6) and head.may_begin(7)


def test_nothing_waits_for_what_does_not_come() -> None:
    """An iteration would stand still."""
    head = BoundaryCheckpoints(holds=True)
    head.left(1, 1)
    head.left(2, 2)
    head.abort(1)
    head.abort(2)
    assert head.may_begin(2)
    assert not head.may_end(0) and head.may_end(1)
    head.release()
    assert head.may_end(0)
    assert BoundaryCheckpoints(holds=False).may_end(0)
