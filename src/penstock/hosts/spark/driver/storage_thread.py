"""The thread that carries out a job's storage operations, one after the other, so that a slow store delays only them.

Deleting a checkpoint with many files may take minutes. The thread deletes some files at a time and alternates with
other operations, so the next checkpoint does not wait for deletions.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from penstock.common.errors import FencedError
from penstock.common.functions.user_calls import RAISED
from penstock.common.job_threads import OnError, start_loop
from penstock.engine.checkpoint.effects import DeleteFiles, DeleteJob, StorageEffect
from penstock.engine.checkpoint.storage_requests import CheckpointStorage, carry_out
from penstock.engine.jobmaster.events import StorageEnded

_DELETED_AT_ONCE = 64
"""The number of files that are deleted between two other operations."""


@dataclass(slots=True)
class _Deletion:
    effect: DeleteFiles
    deleted: int = 0
    """The number of its files that are deleted."""


class StorageThread:
    """Carry out the storage operations of a job.

    This thread calls `post` with each outcome, `failed` with an error for which there is no outcome, and `deleted`
    after it has deleted everything of the job.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        post: Callable[[StorageEnded], object],
        failed: OnError,
        deleted: Callable[[], None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._deleted = deleted
        self._post = post
        self._changed = threading.Condition()
        self._waiting: deque[StorageEffect | Callable[[], None]] = deque()
        """Operations and calls in order. A deletion stays here until earlier operations, which may read its files, are
        done."""
        self._deletions: deque[_Deletion] = deque()
        self._deletion_of_job: DeleteJob | None = None
        self._is_turn_of_deletions = False
        self._last: Callable[[], None] | None = None
        """The call after all operations, with which the thread ends."""
        self._ends = False
        start_loop("penstock-storage", self._take_turn, failed)

    def carry_out(self, effect: StorageEffect) -> None:
        """Carry out an operation after the earlier ones, but possibly before their deletions of files are complete."""
        with self._changed:
            self._waiting.append(effect)
            self._changed.notify()

    def call(self, call: Callable[[], None]) -> bool:
        """Make a call, which must not raise, on this thread. Returns False, without calling, after `end`."""
        with self._changed:
            if not self._ends:
                self._waiting.append(call)
                self._changed.notify()
            return not self._ends

    def end(self, last: Callable[[], None]) -> None:
        """Make a last call after all operations, and end the thread."""
        with self._changed:
            # `call` returns False from now on, since no call is made after the last one.
            self._ends, self._last = True, last
            self._changed.notify()

    def _take_turn(self) -> bool:
        with self._changed:
            while (call := self._next()) is None and not self._ends:
                self._changed.wait()
            if call is None:
                call, self._last = self._last, None
        if call is not None:
            call()
        return call is not None

    def _next(self) -> Callable[[], None] | None:
        """Return the next step, or None if there is none. Alternate between operations and parts of deletions."""
        self._begin_deletions()
        if self._waiting and not (self._deletions and self._is_turn_of_deletions):
            self._is_turn_of_deletions = True
            waiting = self._waiting.popleft()
            return partial(self._carry_out, waiting) if isinstance(waiting, StorageEffect) else waiting
        self._is_turn_of_deletions = False
        if self._deletions:
            return partial(self._delete_some, self._deletions.popleft())
        if self._deletion_of_job is None:
            return None
        # This comes last: no later operation may read the job's directory.
        effect, self._deletion_of_job = self._deletion_of_job, None
        return partial(self._delete_job, effect)

    def _begin_deletions(self) -> None:
        while self._waiting and isinstance(first := self._waiting[0], DeleteFiles | DeleteJob):
            self._waiting.popleft()
            if isinstance(first, DeleteJob):
                self._deletion_of_job = first
            else:
                self._deletions.append(_Deletion(first))

    def _delete_some(self, deletion: _Deletion) -> None:
        effect = deletion.effect
        end = deletion.deleted + _DELETED_AT_ONCE
        part = msgspec.structs.replace(effect, paths=effect.paths[deletion.deleted : end])
        if end >= len(effect.paths):
            self._carry_out(part)
        elif self._succeeds(part):
            deletion.deleted = end
            self._deletions.appendleft(deletion)

    def _delete_job(self, effect: DeleteJob) -> None:
        if self._succeeds(effect):
            self._deleted()
            self._post(StorageEnded(effect.operation))

    def _carry_out(self, effect: StorageEffect) -> None:
        if self._succeeds(effect):
            self._post(StorageEnded(effect.operation))

    def _succeeds(self, effect: StorageEffect) -> bool:
        """Carry out an operation. Returns False after a failure, which it posts."""
        try:
            carry_out(effect, self._storage)
        except RAISED as error:
            # Not only OSError: an error of a file system's library must not end this thread.
            fenced = isinstance(error, FencedError)
            self._post(StorageEnded(effect.operation, str(error) or type(error).__name__, fenced))
            return False
        return True
