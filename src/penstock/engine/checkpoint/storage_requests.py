"""Operations of the checkpoint storage: a job's requests and their outcomes, and how a host carries them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from penstock.common.errors import FencedError
from penstock.engine.checkpoint.effects import (
    DeleteFiles,
    DeleteJob,
    DeleteSavepoint,
    DiscardCheckpoint,
    RecordEnd,
    RetainOnly,
    StorageEffect,
    StoreManifest,
)
from penstock.engine.checkpoint.manifest import Manifest

StorageEnded = Callable[[str, int], None]
"""Called with the error of a storage operation, empty if it succeeded, and the time in milliseconds."""


class StorageRequests:
    """The storage requests of one job. `emit` receives the effects."""

    def __init__(self, emit: Callable[[StorageEffect], None]) -> None:
        self.is_fenced = False
        """Whether another run is known to have taken the job over: this run may no longer change the storage."""
        self._emit = emit
        self._numbers = 0
        self._open: dict[int, StorageEnded] = {}
        """The calls for the ends of operations, by operation number."""
        self._deletions: set[int] = set()
        """The open operations that delete files."""

    @property
    def is_idle(self) -> bool:
        """Whether all operations have been answered."""
        return not self._open

    @property
    def is_settled(self) -> bool:
        """Whether all operations that concern the next attempt have been answered.

        Deletions may take minutes and do not concern it: file names contain the attempt.
        """
        return len(self._open) == len(self._deletions)

    def next_number(self) -> int:
        """Return a unique number for an operation of the storage or of a sink."""
        self._numbers += 1
        return self._numbers

    def request(self, effect: StorageEffect, then: StorageEnded = lambda error, now_ms: None) -> None:
        """Request an operation. Does nothing if the run is fenced: another run owns the storage."""
        if not self.is_fenced:
            self._open[effect.operation] = then
            if isinstance(effect, DeleteFiles):
                self._deletions.add(effect.operation)
            self._emit(effect)

    def fence(self) -> None:
        """Stop using the storage: another run has taken the job over."""
        self.is_fenced = True

    def ended(self, operation: int, error: str, now_ms: int, fenced: bool) -> bool:
        """Handle the end of an operation. Returns False if it was answered before. `fenced`: the job was taken over."""
        if fenced:
            self.fence()
        then = self._open.pop(operation, None)
        self._deletions.discard(operation)
        if then is not None:
            then(error, now_ms)
        return then is not None


class SavepointStorage(Protocol):
    """The storage of one savepoint. `publish` raises OSError if the store fails."""

    def publish(self, manifest: Manifest) -> str:
        """Write the manifest atomically. Returns the path of the savepoint."""

    def remove(self) -> None:
        """Delete the savepoint."""

    def remove_unfinished(self) -> None:
        """Delete the files of an aborted savepoint, unless its manifest exists.

        If the manifest exists, the job's record may name the savepoint, even if the store reported a failed write.
        """


class CheckpointStorage(Protocol):
    """The storage of manifests and files.

    Methods raise OSError if the store fails, and FencedError if another run has taken the job over.
    """

    def publish(self, manifest: Manifest) -> str:
        """Publish a checkpoint atomically. Returns its path."""

    def record_end(self, status: str, savepoint: str = "") -> None:
        """Record the end of the job. `savepoint`: the one with which it stopped, or empty."""

    def record_savepoint(self, savepoint: str, checkpoint: int) -> None:
        """Record that output is committed with a savepoint. `checkpoint`: its number."""

    def discard(self, manifest: Manifest) -> None:
        """Delete a manifest."""

    def remove(self, paths: Iterable[str]) -> None:
        """Delete state files, as far as they exist."""

    def sweep(self, checkpoints: Iterable[Manifest], former_only: bool = False) -> None:
        """Delete everything that these checkpoints do not need, or only what earlier runs left."""

    def delete(self) -> None:
        """Delete everything of a job whose end is on record; the record last."""

    def savepoint(self, directory: str) -> SavepointStorage:
        """Return the storage of a savepoint."""


def carry_out(effect: StorageEffect, storage: CheckpointStorage) -> None:
    """Carry out an operation. Raises OSError or CheckpointError if the store fails."""
    if isinstance(effect, StoreManifest):
        if effect.options.savepoint:
            _save(effect, storage)
        else:
            storage.publish(effect.manifest)
    elif isinstance(effect, DeleteJob):
        storage.delete()
    elif isinstance(effect, RecordEnd):
        storage.record_end(effect.status)
    elif isinstance(effect, DiscardCheckpoint):
        storage.discard(effect.manifest)
    elif isinstance(effect, DeleteFiles):
        storage.remove(effect.paths)
    elif isinstance(effect, RetainOnly):
        storage.sweep(effect.retained, effect.former_only)
    else:
        assert isinstance(effect, DeleteSavepoint)
        storage.savepoint(effect.directory).remove_unfinished()


def _save(effect: StoreManifest, storage: CheckpointStorage) -> None:
    """Complete a savepoint: write its manifest, and record it before its output is committed, in one operation."""
    directory = effect.options.savepoint
    savepoint = storage.savepoint(directory)
    savepoint.publish(effect.manifest)
    try:
        if effect.options.stop:
            storage.record_end("FINISHED", directory)
        elif effect.commits:
            storage.record_savepoint(directory, effect.manifest.checkpoint_id)
    except FencedError:
        # Nothing is committed with it, and a fenced run has no later operation that could remove it.
        savepoint.remove()
        raise
