"""Handles: the descriptions in a manifest of the files that hold the state of a subtask. They are stored as JSON.

A *keyed file* holds entries of several tables, sorted by key group, so that a subtask reads only the groups that it
owns. Keyed state is a chain of files: for each table, a later file holds the changes since the one before, or the whole
table. A chain may start with the files of a key-value store, which can only be read together. Operator state consists
of lists of items, each of which can be read alone and assigned to another subtask.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

import msgspec

UNITS = frozenset({"key", "entry", "element", "array"})
"""Units of the entries of a table. "key": the full content of a key (and namespace). "entry", "element": the full
content of a map or a list, or its changes; in a store, an entry of a map, or some elements of a list. "array": the full
content of a key (and namespace), in arrays of many keys (`engine/state/arrays/stored_columns.py`)."""
EXTERNAL_VERSION = "external-version"
"""The `store_file` of the single file that an external store has in a snapshot: it names a version of the store."""


class Section(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a file: the entries of a key group, or an item of a list. `crc` is the CRC-32 of its bytes."""

    group: int
    offset: int
    length: int
    crc: int


class TableInFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A table in a file. `full`: the file has all entries, and earlier files are ignored for this table."""

    name: str
    full: bool
    schema: str = ""
    """Kind and type of the state, for tables that users' functions have named."""
    unit: str = "key"
    """The unit of an entry, one of UNITS. A reader refuses an unknown unit."""


class KeyedFile(msgspec.Struct, frozen=True, omit_defaults=True, rename={"store_file": "database"}):
    """A file of keyed state. `path` is relative to the directory of the job's checkpoints, or absolute."""

    path: str
    bytes: int
    tables: list[TableInFile] = []
    sections: list[Section] = []
    """Empty if there is a footer, in which `engine/state/snapshot/storage.py` finds them."""
    columns: bool = False
    """Whether it is a Parquet file of one table: then a section's offset is a row group, and its length counts rows."""
    store_file: str = ""
    """Its name in the store's directory, if it is a native file of a store: then sections do not follow key groups."""
    crc: int | None = None
    """CRC-32 of the whole file. None: it was written in manifest version 1."""
    parts: list[Section] = []
    """All bytes of a Parquet file: its row groups and, last, its footer, with key group 0. Empty: the file was written
    before parts existed."""
    footer: Section | None = None
    """The end of the file, if it lists the sections."""


class Redistribution(enum.Enum):
    """How the items of a list are assigned to subtasks after a restart. Flink docs, "Working with State"."""

    SPLIT = "split"
    """Round robin: each item goes to one subtask."""
    UNION = "union"
    """All items go to each subtask."""
    BROADCAST = "broadcast"
    """Every subtask has the same items, so the items of one subtask are enough."""
    IN_FLIGHT = "in flight"
    """Records in flight to the task: each subtask processes those that the partitioners of its inputs would send to it
    now."""


class ListInFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator list state of one subtask."""

    name: str
    redistribution: Redistribution
    items: list[Section]
    schema: str = ""
    """Kind and type of the state, if a user's function has named it."""
    columns: KeyedFile | None = None
    """The list's own Parquet file in a savepoint: then the offset of a section is a row, and its length is 1."""

    @property
    def bytes(self) -> int:
        """The size in bytes."""
        return self.columns.bytes if self.columns is not None else sum(section.length for section in self.items)


class ListsFile(msgspec.Struct, frozen=True):
    """A file of operator state. `path` is empty if all lists are."""

    path: str
    bytes: int
    lists: list[ListInFile]
    crc: int | None = None
    """CRC-32 of the whole file. None: it was written in manifest version 1, or there is no file."""


class OperatorState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one operator in one subtask."""

    keyed: list[KeyedFile] = []
    lists: ListsFile | None = None
    queryable: dict[str, str] = {}
    """Queryable name of a state -> its table."""


class RestoredOperator(msgspec.Struct, frozen=True):
    """The state to restore in one subtask of an operator: chains of files with its key groups, and lists."""

    chains: list[list[KeyedFile]] = []
    lists: list[tuple[str, ListInFile]] = []
    """Path of the file, and the list in it. A list may have several parts."""
    extends_files: bool = False
    """Whether the next checkpoint may be incremental: refer to these files and add only changes."""
    former_groups: list[tuple[int, int]] = []
    """For each chain the key groups, first and end, of the subtask that wrote it; empty: not known."""


class SnapshotFigures(msgspec.Struct, frozen=True):
    """Measurements of a subtask's part of a checkpoint. Times in milliseconds, sizes in bytes."""

    alignment_ms: float = 0
    sync_ms: float = 0
    async_ms: float = 0
    set_aside: int = 0
    written: int = 0
    total: int = 0
    start_delay_ms: float = 0
    """From the trigger to the first barrier, or to the snapshot of a source."""
    in_flight: int | None = None
    """Bytes in flight in an unaligned snapshot. None: it was aligned."""


class SubtaskState(msgspec.Struct, frozen=True):
    """The state of one subtask of a vertex: the states of its operators by uid."""

    operators: dict[str, OperatorState] = {}
    figures: SnapshotFigures = SnapshotFigures()
    ended: bool = False
    """Whether the data of the subtask had ended."""


def store_files_of(chain: list[KeyedFile]) -> list[KeyedFile]:
    """Return the files of a chain that are native files of a store."""
    return [file for file in chain if file.store_file]


def files_of(states: Collection[OperatorState]) -> set[str]:
    """Return the paths of all files of these states."""
    keyed = {file.path for state in states for file in state.keyed}
    lists = [state.lists for state in states if state.lists is not None]
    columns = {one.columns.path for file in lists for one in file.lists if one.columns is not None}
    return (keyed | columns | {file.path for file in lists}) - {""}
