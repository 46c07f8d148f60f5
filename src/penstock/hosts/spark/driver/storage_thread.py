"""The thread that carries out a job's storage operations, one after the other: a slow store delays nothing else.

To delete the files of a checkpoint that had many may take minutes. That is done some files at a time, between what
comes after it, and one such part for all deletions that wait: the next checkpoint does not wait for them.
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
from penstock.common.job_threads import Failed, serve
from penstock.engine.checkpoint.effects import DeleteFiles, DeleteJob, StorageEffect
from penstock.engine.checkpoint.storage_operations import CheckpointStorage, carry_out
from penstock.engine.jobmaster.events import StorageEnded

_FILES = 64
"""How many files are deleted before it is another operation's turn."""


@dataclass(slots=True)
class _Deletion:
    effect: DeleteFiles
    done: int = 0
    """So many of its files are deleted."""


class StorageThread:
    """`post` takes the outcomes, `failed` what keeps it from giving one; they are called by this thread.

    `deleted` is called when nothing of the job is left in the storage.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        post: Callable[[StorageEnded], object],
        failed: Failed,
        deleted: Callable[[], None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._deleted = deleted
        self._post = post
        self._changed = threading.Condition()
        self._waiting: deque[StorageEffect | Callable[[], None]] = deque()
        """Deletions, too, until all before them is done, which needs their files."""
        self._deletions: deque[_Deletion] = deque()
        self._deletion_of_job: DeleteJob | None = None
        self._is_turn_of_deletions = False
        self._last: Callable[[], None] | None = None
        """What is called when all else is done; then the thread ends."""
        self._ends = False
        serve("penstock-storage", self._take_turn, failed)

    def carry_out(self, effect: StorageEffect) -> None:
        """Carry an operation out after those before it, but perhaps before their files are deleted."""
        with self._changed:
            self._waiting.append(effect)
            self._changed.notify()

    def call(self, call: Callable[[], None]) -> bool:
        """Make a call that may take as long as the store does. It must not raise. False: after `end`, not made."""
        with self._changed:
            if not self._ends:
                self._waiting.append(call)
                self._changed.notify()
            return not self._ends

    def end(self, last: Callable[[], None]) -> None:
        """Make one more call; nothing comes after it."""
        with self._changed:
            # From here on `call` refuses: behind the last call nothing would ever be made.
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
        """Calls and deletions by turns, so that neither waits for all of the other's; None: there is nothing to do."""
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
        # The last of all: behind it nothing may look into the job's directory.
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
        end = deletion.done + _FILES
        part = msgspec.structs.replace(effect, paths=effect.paths[deletion.done : end])
        if end >= len(effect.paths):
            self._carry_out(part)
        elif self._succeeds(part):
            deletion.done = end
            self._deletions.appendleft(deletion)

    def _delete_job(self, effect: DeleteJob) -> None:
        if self._succeeds(effect):
            self._deleted()
            self._post(StorageEnded(effect.operation))

    def _carry_out(self, effect: StorageEffect) -> None:
        if self._succeeds(effect):
            self._post(StorageEnded(effect.operation))

    def _succeeds(self, effect: StorageEffect) -> bool:
        """False: it has not, and that is posted."""
        try:
            carry_out(effect, self._storage)
        except RAISED as error:
            # Not only OSError: whatever a file system's own library raises must not end this thread.
            fenced = isinstance(error, FencedError)
            self._post(StorageEnded(effect.operation, str(error) or type(error).__name__, fenced))
            return False
        return True
