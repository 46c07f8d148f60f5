"""Storage operations, carried out: the one place that knows which effect calls which method of a checkpoint storage."""

from __future__ import annotations

from collections.abc import Iterable
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


class SavepointStorage(Protocol):
    """Where one savepoint is kept. `publish` raises OSError where the store fails."""

    def publish(self, manifest: Manifest) -> str:
        """Write the manifest in one piece; returns the path of the savepoint."""

    def remove(self) -> None:
        """Delete the savepoint."""

    def remove_unfinished(self) -> None:
        """Delete what there is of it: it was aborted. If its manifest is there nothing is deleted.

        The job's record may name it then, though the store has said that this could not be written.
        """


class CheckpointStorage(Protocol):
    """Where manifests and files are kept.

    Methods raise OSError where the store fails, and FencedError if another run has taken the job over.
    """

    def publish(self, manifest: Manifest) -> str:
        """Publish a checkpoint in one piece; returns its path."""

    def end(self, how: str, savepoint: str = "") -> None:
        """Record that the job has ended, perhaps with a savepoint."""

    def saved(self, savepoint: str, checkpoint: int) -> None:
        """Record that output is committed with a savepoint, which has the number of a checkpoint."""

    def discard(self, manifest: Manifest) -> None:
        """Delete a manifest."""

    def remove(self, paths: Iterable[str]) -> None:
        """Delete state files, as far as they exist."""

    def sweep(self, checkpoints: Iterable[Manifest], former_only: bool = False) -> None:
        """Delete everything that these checkpoints do not need, or only what former runs have left."""

    def delete(self) -> None:
        """Delete everything of a job whose end is on record; the record goes last."""

    def savepoint(self, directory: str) -> SavepointStorage:
        """Where a savepoint is kept."""


def carry_out(effect: StorageEffect, storage: CheckpointStorage) -> None:
    """Carry an operation out. Raises OSError or CheckpointError where the store fails."""
    if isinstance(effect, StoreManifest):
        if effect.options.savepoint:
            _save(effect, storage)
        else:
            storage.publish(effect.manifest)
    elif isinstance(effect, DeleteJob):
        storage.delete()
    elif isinstance(effect, RecordEnd):
        storage.end(effect.how)
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
    """Complete a savepoint. What is committed with it is on record before: that is one operation with the manifest."""
    directory = effect.options.savepoint
    savepoint = storage.savepoint(directory)
    savepoint.publish(effect.manifest)
    try:
        if effect.options.stop:
            storage.end("FINISHED", directory)
        elif effect.commits:
            storage.saved(directory, effect.manifest.checkpoint_id)
    except FencedError:
        # Nothing is committed with it, and no later operation removes it: a fenced run has none.
        savepoint.remove()
        raise
