"""The manifest of a checkpoint: a complete list of its contents. JSON, written last and atomically.

Operators are named by their uid, or by an id derived from their position in the program, so a changed program finds
their state. Arbitrary values (the state of an enumerator, committables of a sink) are pickled and in base64. The last
field is a checksum of the whole text. docs/internals/formats.md describes the versions.
"""

from __future__ import annotations

import base64
import io
import re
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.common.files.file_systems import is_url
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.state.handles import (
    EXTERNAL_VERSION,
    KeyedFile,
    ListsFile,
    OperatorState,
    Redistribution,
    SnapshotFigures,
    files_of,
    store_files_of,
)
from penstock.engine.state.pickles import dumps
from penstock.engine.state.unpickling import StateUnpickler

VERSION = 6
"""The manifest version that this penstock writes. It reads all versions up to this one."""
_NO_CHECKSUM = "00000000"
_END = b'"checksum": "00000000"\n}'
_SIGNED = re.compile(rb'"checksum": "([0-9a-f]{8})"\n\}\Z')
"""The end of a manifest in every version except the first, also in versions to come: otherwise a damaged manifest would
look like one that only a newer penstock can read."""


class SubtaskPart(msgspec.Struct, frozen=True):
    """The state of one subtask of an operator in the checkpoint."""

    subtask: int
    state: OperatorState


class OperatorPart(msgspec.Struct, frozen=True):
    """An operator with state."""

    state_id: str
    name: str
    parallelism: int
    max_parallelism: int
    subtasks: list[SubtaskPart] = []

    @property
    def has_keyed(self) -> bool:
        """Whether there is keyed state, which belongs to key groups."""
        return any(subtask.state.keyed for subtask in self.subtasks)


class SubtaskReport(msgspec.Struct, frozen=True):
    """Measurements of one subtask of a vertex."""

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
    """State id of a source -> state of its enumerator, packed."""
    commits: dict[str, list[str]] = {}
    """State id of a sink -> pairs (subtask, committables), each packed."""
    version: int = VERSION
    savepoint: bool = False
    oldest_reader: int = 5
    """The lowest version that a reader must know. Below `version` if only optional fields were added since."""
    epoch: int = 0
    """The epoch of the run that wrote it: job_record.py. 0: written before epochs existed."""
    record_number: int = 0
    """The number of the entry of the job's record that this is or copies: job_record.py. 0: a savepoint, or an older
    copy."""
    compiled_plan: str = ""
    """The plan of a job of SQL statements, as `table/execution/plan_of_job.py` packs it; empty for other jobs."""
    checksum: str = _NO_CHECKSUM
    """CRC-32 of the text in hexadecimal, computed with this field set to zeros. The last field."""

    def files(self) -> set[str]:
        """Return the paths of all files that hold its state."""
        return files_of(self._states())

    def has_store_files(self) -> bool:
        """Whether some state is in native files of key-value stores."""
        return bool(self._store_files())

    def has_external_state(self) -> bool:
        """Whether some state is in a store outside of the checkpoint, which then names its version."""
        return EXTERNAL_VERSION in self._store_files()

    def _store_files(self) -> set[str]:
        return {file.store_file for state in self._states() for file in store_files_of(state.keyed)}

    def with_oldest_reader(self) -> Manifest:
        """Return it with `oldest_reader` 6 if it holds records in flight, which older readers would drop."""
        lists = [one for state in self._states() if state.lists is not None for one in state.lists.lists]
        if any(one.redistribution is Redistribution.IN_FLIGHT for one in lists):
            return msgspec.structs.replace(self, oldest_reader=6)
        return self

    def _states(self) -> list[OperatorState]:
        return [part.state for operator in self.operators for part in operator.subtasks]

    def operator(self, state_id: str) -> OperatorPart | None:
        """Return the operator with this state id, or None."""
        return next((part for part in self.operators if part.state_id == state_id), None)


def is_relative(path: str) -> bool:
    """Whether a file is in the job's own directory. Other files belong to the job whose checkpoint was restored."""
    return not path.startswith("/") and not is_url(path)


def with_absolute_paths(manifest: Manifest, directory: str) -> Manifest:
    """Return the manifest with absolute paths of files, as another job needs it."""

    def whole(path: str) -> str:
        return f"{directory}/{path}" if path and is_relative(path) else path

    def moved_file(file: KeyedFile) -> KeyedFile:
        return msgspec.structs.replace(file, path=whole(file.path))

    def moved_lists(file: ListsFile) -> ListsFile:
        lists = [msgspec.structs.replace(one, columns=one.columns and moved_file(one.columns)) for one in file.lists]
        return msgspec.structs.replace(file, path=whole(file.path), lists=lists)

    def moved(state: OperatorState) -> OperatorState:
        keyed, lists = list(map(moved_file, state.keyed)), state.lists and moved_lists(state.lists)
        return msgspec.structs.replace(state, keyed=keyed, lists=lists)

    return _with_states(manifest, moved)


def _with_states(manifest: Manifest, change: Callable[[OperatorState], OperatorState]) -> Manifest:
    operators = [
        msgspec.structs.replace(
            operator,
            subtasks=[msgspec.structs.replace(part, state=change(part.state)) for part in operator.subtasks],
        )
        for operator in manifest.operators
    ]
    return msgspec.structs.replace(manifest, operators=operators)


def _without_repeated_tables(state: OperatorState) -> OperatorState:
    """Leave out the tables of a file that are equal to those of the file before it."""
    keyed = [
        msgspec.structs.replace(file, tables=[]) if before is not None and file.tables == before.tables else file
        for before, file in zip([None, *state.keyed], state.keyed, strict=False)
    ]
    return msgspec.structs.replace(state, keyed=keyed)


def _with_repeated_tables(state: OperatorState) -> OperatorState:
    keyed: list[KeyedFile] = []
    for file in state.keyed:
        repeats = keyed and not file.tables
        keyed.append(msgspec.structs.replace(file, tables=keyed[-1].tables) if repeats else file)
    return msgspec.structs.replace(state, keyed=keyed)


def encode(manifest: Manifest) -> bytes:
    """Encode a manifest as JSON with its checksum."""
    # A chain may have thousands of files, most of them with the same tables.
    return seal(_with_states(manifest, _without_repeated_tables))


def seal(stored: msgspec.Struct) -> bytes:
    """Encode a struct as JSON, one line per field, with a checksum of the whole text in its last field, `checksum`."""
    blank = msgspec.json.encode(msgspec.structs.replace(stored, checksum=_NO_CHECKSUM))
    fields = from_json(blank, dict[str, msgspec.Raw])
    data = b"{\n" + b",\n".join(b' "%s": %s' % (name.encode(), value) for name, value in fields.items()) + b"\n}"
    return _with_checksum(data, f"{zlib.crc32(data):08x}")


def check_seal(data: bytes, where: str) -> None:
    """Raise DamagedCheckpointError unless a text ends with its checksum, as `seal` writes it."""
    signed = _SIGNED.search(data)
    if signed is None:
        raise DamagedCheckpointError(f"{where} is damaged: it does not end with its checksum")
    if signed[1] != b"%08x" % zlib.crc32(_with_checksum(data, _NO_CHECKSUM)):
        raise DamagedCheckpointError(f"{where} is damaged: its checksum is wrong")


def decode(data: bytes, path: str) -> Manifest:
    """Decode a manifest of any version up to VERSION. Errors name `path`.

    Raises DamagedCheckpointError if it was changed or truncated, CheckpointError if only a newer penstock can read it.
    """
    try:
        if not _is_first_version(data):
            # Checked first: no field of a damaged manifest is reliable, not even its version.
            check_seal(data, f"the manifest {path}")
        head = from_json(data, _Head)
        needed = head.oldest_reader or head.version
        if needed > VERSION:
            raise CheckpointError(
                f"the manifest {path} has version {head.version}, but this version of penstock reads up to {VERSION}: "
                "it was written by a newer one"
            )
        manifest = msgspec.structs.replace(from_json(data, Manifest), checksum=_NO_CHECKSUM)
        return _with_states(manifest, _with_repeated_tables)
    except DECODING_ERRORS as error:
        raise DamagedCheckpointError(f"the manifest {path} is damaged: {error}") from error


class _Head(msgspec.Struct):
    """The fields that decide whether and how the rest of a manifest can be read."""

    version: int
    oldest_reader: int | None = None
    epoch: int | None = None
    checksum: str | None = None


def _is_first_version(data: bytes) -> bool:
    """Whether a manifest has version 1, which had no checksum: it lacks all fields that version 2 added."""
    if _SIGNED.search(data) is not None:
        return False
    head = from_json(data, _Head)
    return head.version == 1 and head.oldest_reader is None and head.epoch is None and head.checksum is None


def _with_checksum(data: bytes, checksum: str) -> bytes:
    return data[: -len(_END)] + _END.replace(_NO_CHECKSUM.encode(), checksum.encode())


def packed(value: Any) -> str:
    """Encode an arbitrary value of a source or sink as text for a field of a manifest."""
    return base64.b64encode(dumps(value)).decode("ascii")


def unpacked(text: str) -> Any:
    """Decode a value of `packed`. Only for manifests from the job's own checkpoint storage."""
    return StateUnpickler(io.BytesIO(base64.b64decode(text))).load_complete()
