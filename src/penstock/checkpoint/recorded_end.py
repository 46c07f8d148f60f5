"""What a coordinator puts on record when its job ends, and what is deleted then.

    stopped with a savepoint     on record with the savepoint itself. Checkpoints are deleted at once, since nothing may
                                 be restored from them any more; the record, which names the savepoint, at the very end
    all data has ended           with a checkpoint interval the last checkpoint commits what is left. Without one
                                 results are committed after the last task has ended, and that is put on record first:
                                 a run that was taken over meanwhile finds the number taken, and commits nothing
    over, nothing is retained    the end is put on record, then everything is deleted

Nothing is recorded of a job from which no other run can go on: it has no checkpoint, and no savepoint was committed.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.checkpoint.effects import DeleteJob, RecordEnd, RecordResults, RetainOnly
from penstock.checkpoint.retention import Retention
from penstock.checkpoint.storage_requests import StorageRequests
from penstock.common.errors import CheckpointError, FencedError


class RecordedEnd:
    """Of one job. `has_interval`: whether it takes checkpoints by itself. `epoch`: which run of the job this is."""

    def __init__(self, store: StorageRequests, retention: Retention, epoch: int, has_interval: bool) -> None:
        self.stopped = False
        """Whether a savepoint with which the job stops is stored. What it names is committed, so the job must not be
        restored from a checkpoint before it."""
        self._store = store
        self._retention = retention
        self._epoch = epoch
        self._has_interval = has_interval

    @property
    def _is_known(self) -> bool:
        """Whether another run can go on with this job: it finds something of it on record."""
        return self._epoch > 1 or self._retention.newest is not None

    def stops(self) -> None:
        """The savepoint with which the job stops is stored, and on record as its end."""
        self.stopped = True
        self._retention.drop_all()
        self._store.ask(RetainOnly(self._store.number(), []))

    def before_results(self, then: Callable[[CheckpointError | None], None]) -> None:
        """The job has ended well, and its results are about to be committed. `then`: whether they may be."""
        if self.stopped or self._has_interval or not self._is_known:
            then(None)
        elif self._store.fenced:
            then(FencedError("another run has taken the job over"))
        else:

            def recorded(error: str, now_ms: int) -> None:
                if error and self._store.fenced:
                    then(FencedError(error))
                else:
                    then(CheckpointError(f"the results of the job were not committed: {error}") if error else None)

            self._store.ask(RecordResults(self._store.number()), recorded)

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
            self._store.ask(RecordEnd(self._store.number(), how), recorded)

    def _delete(self) -> None:
        self._retention.drop_all()
        self._store.ask(DeleteJob(self._store.number()))
