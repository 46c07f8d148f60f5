"""The thread that carries out a job's storage operations, one after the other: a slow store delays nothing else.

To delete the files of a checkpoint that had many may take minutes. That is done some files at a time, between what
comes after it: the next checkpoint does not wait for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial

import msgspec

from penstock.checkpoint.effects import DeleteFiles, DeleteJob, StorageEffect
from penstock.checkpoint.storage_operations import CheckpointStorage, carry_out
from penstock.common.errors import FencedError
from penstock.common.job_threads import Failed, serve
from penstock.common.user_calls import RAISED
from penstock.jobmaster.events import StorageEnded

_FILES = 64
"""How many files are deleted before it is another operation's turn."""


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
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._deletions = 0
        """How many are to be continued."""
        self._lock = threading.Lock()
        self._ended = False
        serve("penstock-storage", self._make_next_call, failed)

    def carry_out(self, effect: StorageEffect) -> None:
        """Carry an operation out after those before it, but perhaps before their files are deleted."""
        self._waiting.put(lambda: self._carry_out(effect))

    def _in_turn(self, effect: StorageEffect) -> bool:
        """Carry an operation out, or a part of it. False: the rest, or all of it, comes after what waits now."""
        if isinstance(effect, DeleteJob) and self._deletions:
            self.carry_out(effect)
            return False
        if isinstance(effect, DeleteFiles) and len(effect.paths) > _FILES:
            carry_out(msgspec.structs.replace(effect, paths=effect.paths[:_FILES]), self._storage)
            self._deletions += 1
            self._waiting.put(
                partial(self._go_on_deleting, msgspec.structs.replace(effect, paths=effect.paths[_FILES:]))
            )
            return False
        carry_out(effect, self._storage)
        if isinstance(effect, DeleteJob):
            self._deleted()
        return True

    def _go_on_deleting(self, rest: DeleteFiles) -> None:
        self._deletions -= 1
        self._carry_out(rest)

    def call(self, call: Callable[[], None]) -> bool:
        """Make a call that may take as long as the store does. It must not raise. False: after `end`, not made."""
        with self._lock:
            if not self._ended:
                self._waiting.put(call)
            return not self._ended

    def end(self, last: Callable[[], None]) -> None:
        """Make one more call; nothing comes after it."""
        with self._lock:
            # From here on `call` refuses: behind the last call nothing would ever be made.
            self._ended = True
        self._waiting.put(last)
        self._waiting.put(None)

    def _carry_out(self, effect: StorageEffect) -> None:
        try:
            if not self._in_turn(effect):
                return
        except RAISED as error:
            # Not only OSError: whatever a file system's own library raises must not end this thread.
            fenced = isinstance(error, FencedError)
            self._post(StorageEnded(effect.operation, str(error) or type(error).__name__, fenced))
        else:
            self._post(StorageEnded(effect.operation))

    def _make_next_call(self) -> bool:
        call = self._waiting.get()
        if call is not None:
            call()
        return call is not None
