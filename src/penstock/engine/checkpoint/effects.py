"""The effects of the checkpoint coordinator, which the host of the JobMaster carries out.

A coordinator performs no I/O. It emits effects; the host carries them out and reports the outcome of those that carry
an `operation` number. The host executes storage operations one after the other in the order in which they were
emitted. Commits of one sink are executed in order; commits of different sinks may run in parallel.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.task.events import ControlEvent


class SendToTask(msgspec.Struct, frozen=True):
    """Send a control event to one task of the current attempt."""

    vertex: int
    subtask: int
    event: ControlEvent


class StorageEffect(msgspec.Struct, frozen=True):
    """Base of all storage operations. The host answers each with its `operation` number and an error, if any."""

    operation: int


class StoreManifest(StorageEffect, frozen=True):
    """Publish a checkpoint, or write the manifest of a savepoint atomically.

    If the job stops with the savepoint, the host also records the end of the job: from then on nothing is restored
    from its checkpoints. `commits`: the job continues, but output is committed with the savepoint, and the host
    records this: from then on nothing is restored from earlier checkpoints.
    """

    manifest: Manifest
    options: CheckpointOptions = CheckpointOptions()
    commits: bool = False


class RecordEnd(StorageEffect, frozen=True):
    """Record that the job has ended with this status. From then on nothing is restored from its checkpoints."""

    status: str


class DiscardCheckpoint(StorageEffect, frozen=True):
    """Delete the manifest of a subsumed checkpoint. Its files are deleted by DeleteFiles."""

    manifest: Manifest


class DeleteFiles(StorageEffect, frozen=True):
    """Delete state files, as far as they exist. The host may carry out later operations before it, except DeleteJob."""

    paths: list[str]


class RetainOnly(StorageEffect, frozen=True):
    """Delete everything in the job's checkpoint directory that these checkpoints do not need.

    Emitted only while no task of this run writes there, since it also deletes the files that killed workers left.
    `former_only`: delete only files of earlier runs of the job.
    """

    retained: list[Manifest]
    former_only: bool = False


class DeleteJob(StorageEffect, frozen=True):
    """Delete the job's checkpoint directory. The end of the job is on record, and the record is deleted last."""


class DeleteSavepoint(StorageEffect, frozen=True):
    """Delete the directory of a savepoint that was aborted."""

    directory: str


class Commit(msgspec.Struct, frozen=True):
    """Commit what one subtask of a sink prepared. The host answers with the number `operation`.

    `again`: the job was restored from the checkpoint that names these committables, so they may be committed already.
    """

    operation: int
    sink: int
    subtask: int
    committables: list[Any]
    again: bool = False


class AbortCommittables(msgspec.Struct, frozen=True):
    """Discard what one subtask of a sink prepared: no checkpoint will name it. The host does not answer."""

    sink: int
    subtask: int
    committables: list[Any]


CheckpointEffect = SendToTask | StorageEffect | Commit | AbortCommittables
