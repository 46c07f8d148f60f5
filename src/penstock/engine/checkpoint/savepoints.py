"""The differences between savepoints and checkpoints.

    files       belong to the user: they are not in the incremental chain of a task, and are deleted only if the
                savepoint is aborted
    commits     with a checkpoint interval the job is not restored from a savepoint, so no output is committed with it
                unless the job stops there. Without an interval it is restored from it, and output is committed
    the end     a savepoint with which the job stops is recorded as its end (RecordedEnd)

Source: Flink docs, "Savepoints"; "Checkpoints vs. Savepoints".
"""

from __future__ import annotations

from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints, RecordedEnd
from penstock.engine.checkpoint.effects import DeleteSavepoint
from penstock.engine.checkpoint.manifest import Manifest, with_absolute_paths
from penstock.engine.checkpoint.pending import PendingCheckpoint
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.runtime.checkpoint_options import CheckpointOptions


class Savepoints:
    """The savepoints of one job. `periodic`: whether it takes periodic checkpoints, from which it is restored."""

    def __init__(
        self, storage: StorageRequests, completed: CompletedCheckpoints, end: RecordedEnd, periodic: bool
    ) -> None:
        self.newest_id = 0
        """The number of the newest stored savepoint."""
        self._storage = storage
        self._completed = completed
        self._end = end
        self._periodic = periodic
        # Aborted savepoints stay in it: a late acknowledgement would otherwise count as one of a checkpoint.
        self._triggered: set[int] = set()
        """The savepoints that some task may still acknowledge."""

    def triggered(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Note a triggered checkpoint, which may be a savepoint."""
        if options.savepoint:
            self._triggered.add(checkpoint_id)

    def includes(self, checkpoint_id: int) -> bool:
        """Whether this is the number of a savepoint, also an aborted one: later snapshots do not build on its files."""
        return checkpoint_id in self._triggered

    def commits(self, options: CheckpointOptions) -> bool:
        """Whether output is committed with it although the job continues."""
        return bool(options.savepoint) and not options.stop and not self._periodic

    def stored(self, pending: PendingCheckpoint, manifest: Manifest) -> bool:
        """Handle a stored manifest. Returns whether output is committed with it."""
        self.newest_id = pending.checkpoint_id
        if pending.request.options.stop:
            # The end is on record: if the driver dies during the commits, no job can be restored from an earlier
            # checkpoint and repeat them.
            self._end.stops()
            return True
        if self._periodic:
            return False
        # On record: if the job were restored from an earlier snapshot, it would write the same output again.
        self._completed.add_savepoint(with_absolute_paths(manifest, pending.savepoint))
        return True

    def aborted(self, pending: PendingCheckpoint) -> None:
        """Delete the files that tasks have written for it."""
        self._storage.request(DeleteSavepoint(self._storage.next_number(), pending.savepoint))

    def no_task_left(self) -> None:
        """Forget all savepoints: no task is left to acknowledge them."""
        self._triggered.clear()
