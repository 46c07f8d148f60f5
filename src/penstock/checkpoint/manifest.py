"""The manifest of a checkpoint: the only truth about what it consists of. JSON, written last and in one piece.

Operators are named by their uid, or by what is derived from their place in the program, so a manifest means the same
to a job that has been changed. What is arbitrary in it (the state of an enumerator, what a sink has to commit) is
pickled and in base64.
"""

from __future__ import annotations

import base64
import pickle
from typing import Any

import msgspec

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.common.file_systems import is_url
from penstock.state.handles import KeyedFile, ListsFile, OperatorState, SnapshotFigures, database_of, files_of

VERSION = 1


class SubtaskPart(msgspec.Struct, frozen=True):
    """What one subtask of an operator has in the checkpoint."""

    subtask: int
    state: OperatorState


class OperatorPart(msgspec.Struct, frozen=True):
    """An operator with state."""

    state_id: str
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: list[SubtaskPart] = []


class SubtaskReport(msgspec.Struct, frozen=True):
    """How it went in one subtask of a vertex."""

    vertex: str
    subtask: int
    ended: bool
    figures: SnapshotFigures


class Manifest(msgspec.Struct, frozen=True):
    """A completed checkpoint."""

    job_id: str
    job_name: str
    checkpoint_id: int
    attempt: int
    triggered_ms: int
    completed_ms: int
    operators: list[OperatorPart]
    subtasks: list[SubtaskReport]
    enumerators: dict[str, str] = {}
    """state id of a source -> what its enumerator needs to go on."""
    commits: dict[str, list[str]] = {}
    """state id of a sink -> (subtask, committables), each for itself."""
    version: int = VERSION
    savepoint: bool = False

    def files(self) -> set[str]:
        """The paths of all files that hold its state."""
        return files_of([part.state for operator in self.operators for part in operator.subtasks])

    def has_databases(self) -> bool:
        """Whether state is in the own files of key-value stores."""
        states = [part.state for operator in self.operators for part in operator.subtasks]
        return any(database_of(state.keyed) for state in states)

    def operator(self, state_id: str) -> OperatorPart | None:
        """The operator of that name."""
        return next((part for part in self.operators if part.state_id == state_id), None)


def is_relative(path: str) -> bool:
    """Whether a file is in the job's own directory; else it is of the job from whose checkpoint this one started."""
    return not path.startswith("/") and not is_url(path)


def located(manifest: Manifest, directory: str) -> Manifest:
    """The manifest as another job sees it: its files by their whole paths."""

    def whole(path: str) -> str:
        return f"{directory}/{path}" if path and is_relative(path) else path

    def moved_file(file: KeyedFile) -> KeyedFile:
        return msgspec.structs.replace(file, path=whole(file.path))

    def moved_lists(file: ListsFile) -> ListsFile:
        lists = [msgspec.structs.replace(one, columns=one.columns and moved_file(one.columns)) for one in file.lists]
        return msgspec.structs.replace(file, path=whole(file.path), lists=lists)

    def moved(state: OperatorState) -> OperatorState:
        return OperatorState(list(map(moved_file, state.keyed)), state.lists and moved_lists(state.lists))

    operators = [
        msgspec.structs.replace(
            operator,
            subtasks=[msgspec.structs.replace(part, state=moved(part.state)) for part in operator.subtasks],
        )
        for operator in manifest.operators
    ]
    return msgspec.structs.replace(manifest, operators=operators)


def encode(manifest: Manifest) -> bytes:
    """As JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def decode(data: bytes, path: str) -> Manifest:
    """A manifest from JSON. Raises CheckpointError naming `path` if it is none."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise DamagedCheckpointError(f"the manifest {path} is damaged: {error}") from error
    if manifest.version > VERSION:
        raise CheckpointError(
            f"the manifest {path} has version {manifest.version}, this penstock reads up to {VERSION}: it was written "
            "by a newer one"
        )
    return manifest


def packed(value: Any) -> str:
    """An arbitrary value as text."""
    return base64.b64encode(pickle.dumps(value, protocol=5)).decode("ascii")


def unpacked(text: str) -> Any:
    """The value again. Only for manifests from the job's own checkpoint storage."""
    return pickle.loads(base64.b64decode(text))
