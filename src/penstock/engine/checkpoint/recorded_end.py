"""What is put on record when its job ends, and what is deleted then.

    stopped with a savepoint     on record with the savepoint itself. Checkpoints are deleted at once, since nothing may
                                 be restored from them any more; the record, which names the savepoint, at the very end
    over, nothing is retained    the end is put on record, then everything is deleted

Nothing is recorded of a job from which no other run can go on: it has no checkpoint, and no savepoint was committed.
"""

from __future__ import annotations

from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.engine.checkpoint.effects import DeleteJob, RecordEnd, RetainOnly
from penstock.engine.checkpoint.storage_requests import StorageRequests


class RecordedEnd:
    """Of one job. `epoch`: which run of the job this is."""

    def __init__(self, storage: StorageRequests, completed: CompletedCheckpoints, epoch: int) -> None:
        self.stopped = False
        """Whether a savepoint with which the job stops is stored. What it names is committed, so the job must not be
        restored from a checkpoint before it."""
        self._storage = storage
        self._completed = completed
        self._epoch = epoch

    @property
    def _is_known(self) -> bool:
        """Whether another run can go on with this job: it finds something of it on record."""
        return self._epoch > 1 or self._completed.newest is not None

    def stops(self) -> None:
        """The savepoint with which the job stops is stored, and on record as its end."""
        self.stopped = True
        self._completed.drop_all()
        self._storage.ask(RetainOnly(self._storage.number(), []))

    def over(self, how: str) -> None:
        """The job has ended as this status, and its checkpoints are not to be retained."""

        def recorded(error: str, now_ms: int) -> None:
            # The record first: a job that is started again after a part of it was deleted must not do its work twice.
            # Without it all checkpoints stay: the last one of a job that has finished leads to its end at once.
            if not error:
                self._delete()

        if self.stopped or not self._is_known:
            self._delete()
        else:
            self._storage.ask(RecordEnd(self._storage.number(), how), recorded)

    def _delete(self) -> None:
        self._completed.drop_all()
        self._storage.ask(DeleteJob(self._storage.number()))
