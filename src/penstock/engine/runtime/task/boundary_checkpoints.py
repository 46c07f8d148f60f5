"""When a head of supersteps may continue if each superstep has a checkpoint (`penstock.checkpointing.each-superstep`).

    superstep n ends        when a barrier waits, which leaves at the boundary behind n if it waits at all heads
    superstep n + 1 begins  when a checkpoint from before n, or from behind it, is complete

So a failure in superstep n + 1 repeats at most one complete superstep, n. A superstep does not wait for the checkpoint
of the boundary at which it begins, unless that of the boundary before was aborted: it is written meanwhile. If both
were aborted the iteration continues, because nothing is left that could become complete.
"""

from __future__ import annotations


class BoundaryCheckpoints:
    """The checkpoints whose barriers have left a head. `holds`: whether supersteps wait for them."""

    def __init__(self, holds: bool) -> None:
        self._holds = holds
        self._saved = 0
        """The superstep with which a restart would begin: it follows the newest complete checkpoint."""
        self._left: dict[int, int] = {}
        """The checkpoints that are not complete, each with the superstep that followed its barrier."""

    def restored(self, follower: int) -> None:
        """Note that the iteration was restored, and begins with superstep `follower`."""
        self._saved = follower

    def may_end(self, barriers: int) -> bool:
        """Return whether a superstep may end, with so many barriers that wait."""
        return barriers > 0 or not self._holds

    def may_begin(self, number: int) -> bool:
        """Return whether superstep `number`, or the end of the iteration, may begin."""
        return not self._holds or self._saved >= number - 1 or not self._left

    def left(self, checkpoint_id: int, follower: int) -> None:
        """Note that the barrier of a checkpoint, not of a savepoint, has left before superstep `follower`."""
        self._left[checkpoint_id] = follower

    def complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is complete, which subsumes older ones."""
        self._saved = self._left.get(checkpoint_id, self._saved)
        self._left = {later: follower for later, follower in self._left.items() if later > checkpoint_id}

    def abort(self, checkpoint_id: int) -> None:
        """Note that a checkpoint was aborted."""
        self._left.pop(checkpoint_id, None)

    def release(self) -> None:
        """Let supersteps continue: no checkpoints begin any more."""
        self._holds = False
