"""The thread that carries out a job's storage operations, one after the other: a slow store delays nothing else."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from penstock.checkpoint.effects import StorageEffect
from penstock.checkpoint.storage_operations import CheckpointStorage, carry_out
from penstock.jobmaster.events import StorageEnded


class StorageThread:
    """`post` takes the outcomes; it is called by this thread."""

    def __init__(self, storage: CheckpointStorage, post: Callable[[StorageEnded], object]) -> None:
        self._storage = storage
        self._post = post
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="penstock-storage", daemon=True).start()

    def carry_out(self, effect: StorageEffect) -> None:
        """Carry an operation out after those before it."""
        self._waiting.put(lambda: self._carry_out(effect))

    def call(self, call: Callable[[], None]) -> None:
        """Make a call that may take as long as the store does. It must not raise."""
        self._waiting.put(call)

    def end(self) -> None:
        """Nothing more comes."""
        self._waiting.put(None)

    def _carry_out(self, effect: StorageEffect) -> None:
        try:
            carry_out(effect, self._storage)
        except Exception as error:
            # Not only OSError: whatever a file system's own library raises must not end this thread.
            self._post(StorageEnded(effect.operation, str(error) or type(error).__name__))
        else:
            self._post(StorageEnded(effect.operation))

    def _serve(self) -> None:
        while (call := self._waiting.get()) is not None:
            call()
