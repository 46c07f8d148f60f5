"""What distinguishes savepoints from the checkpoints that they are otherwise taken as.

    files       are the user's: no part of the incremental chain of a task, and deleted only if the savepoint is aborted
    commits     with a checkpoint interval the job is not restored from a savepoint, so nothing is committed with it
                unless the job stops there. Without one it is restored from it, and output is committed
    the end     a savepoint with which the job stops is its end on record (recorded_end.py)

Source: Flink docs, "Savepoints"; "Checkpoints vs. Savepoints".
"""

from __future__ import annotations

from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.engine.checkpoint.effects import DeleteSavepoint
from penstock.engine.checkpoint.manifest import Manifest, located
from penstock.engine.checkpoint.pending import PendingCheckpoint
from penstock.engine.checkpoint.recorded_end import RecordedEnd
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.runtime.checkpoint_options import CheckpointOptions


class Savepoints:
    """Of one job. `periodic`: whether it takes checkpoints by itself, from which it is restored."""

    def __init__(
        self, storage: StorageRequests, completed: CompletedCheckpoints, end: RecordedEnd, periodic: bool
    ) -> None:
        self.newest_id = 0
        """The newest savepoint that is stored."""
        self._storage = storage
        self._completed = completed
        self._end = end
        self._periodic = periodic
        # Kept when one is aborted: an acknowledgement that is on its way would be taken for a checkpoint's.
        self._triggered: set[int] = set()
        """Those that some task may still acknowledge."""

    def triggered(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """A checkpoint begins, which may be a savepoint."""
        if options.savepoint:
            self._triggered.add(checkpoint_id)

    def includes(self, checkpoint_id: int) -> bool:
        """Whether this number is a savepoint's, be it aborted: no later snapshot of a task builds on its files."""
        return checkpoint_id in self._triggered

    def commits(self, options: CheckpointOptions) -> bool:
        """Whether output is committed with it though the job goes on."""
        return bool(options.savepoint) and not options.stop and not self._periodic

    def stored(self, pending: PendingCheckpoint, manifest: Manifest) -> bool:
        """Its manifest is stored. Returns whether output is committed with it."""
        self.newest_id = pending.checkpoint_id
        if pending.request.options.stop:
            # That is recorded: if the driver dies over the commits, no job can be restored from a checkpoint before
            # them and do them a second time.
            self._end.stops()
            return True
        if self._periodic:
            return False
        # On record: the job is never restored from anything before, or it would write the same output again.
        self._completed.saved(located(manifest, pending.savepoint))
        return True

    def aborted(self, pending: PendingCheckpoint) -> None:
        """Delete what tasks have written for it."""
        self._storage.ask(DeleteSavepoint(self._storage.number(), pending.savepoint))

    def no_task_left(self) -> None:
        """No task can acknowledge one any more."""
        self._triggered.clear()
