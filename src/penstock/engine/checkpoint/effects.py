"""What the checkpoint coordinator asks of the host of its job master.

A coordinator performs no I/O. It emits effects; the host carries them out and reports the outcome of those that carry
an `operation` number. The host executes storage operations one after the other in the order in which they were
emitted. Commits of one sink are executed in order, those of different sinks may run side by side.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.task.events import ControlEvent


class SendToTask(msgspec.Struct, frozen=True):
    """Send a control event to one task of the present attempt."""

    vertex: int
    subtask: int
    event: ControlEvent


class StorageEffect(msgspec.Struct, frozen=True):
    """Base of all storage operations. The host answers each with its `operation` number and an error, if any."""

    operation: int


class StoreManifest(StorageEffect, frozen=True):
    """Publish a checkpoint, or write the manifest of a savepoint in one piece.

    With a savepoint with which the job stops, its end is recorded: from then on nothing is restored from the job's
    checkpoints. `commits`: the job goes on, but output is committed with the savepoint, which is recorded: from then on
    nothing is restored from the checkpoints before it.
    """

    manifest: Manifest
    options: CheckpointOptions = CheckpointOptions()
    commits: bool = False


class RecordEnd(StorageEffect, frozen=True):
    """Record that the job has ended, as which status. From then on nothing is restored from its checkpoints."""

    how: str


class DiscardCheckpoint(StorageEffect, frozen=True):
    """Delete the manifest of a subsumed checkpoint. Its files are deleted by DeleteFiles."""

    manifest: Manifest


class DeleteFiles(StorageEffect, frozen=True):
    """Delete state files, as far as they exist. Any other operation but DeleteJob may be carried out before it."""

    paths: list[str]


class RetainOnly(StorageEffect, frozen=True):
    """Delete everything in the job's checkpoint directory that these checkpoints do not need.

    Emitted only while no task of this run writes there: this also removes the files of workers that were killed while
    writing. `former_only`: only what former runs of the job have left.
    """

    retained: list[Manifest]
    former_only: bool = False


class DeleteJob(StorageEffect, frozen=True):
    """Delete the job's checkpoint directory. Its end is on record; the record goes last."""


class DeleteSavepoint(StorageEffect, frozen=True):
    """Delete the directory of a savepoint that was aborted."""

    directory: str


class Commit(msgspec.Struct, frozen=True):
    """Commit what one subtask of a sink prepared. The host answers with `operation`.

    `again`: the job was restored from the checkpoint that names these committables, so they may be committed already.
    """

    operation: int
    sink: int
    subtask: int
    committables: list[Any]
    again: bool = False


class AbortCommittables(msgspec.Struct, frozen=True):
    """Discard what one subtask of a sink prepared: no checkpoint will ever name it. Not answered."""

    sink: int
    subtask: int
    committables: list[Any]


CheckpointEffect = SendToTask | StorageEffect | Commit | AbortCommittables
