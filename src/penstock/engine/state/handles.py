"""Handles: how a manifest describes the files that hold the state of a subtask. They are stored as JSON.

A *keyed file* holds entries of several tables, sorted by key group, so that a subtask reads no more than the groups it
owns. Keyed state is a chain of files: a later one holds what has changed since the one before, table by table, or a
whole table. A chain may start with the files of a key-value store, which can only be read together. Operator
state is lists of items, each of which can be read alone and given to another subtask.
"""

from __future__ import annotations

import enum
from collections.abc import Collection

import msgspec

UNITS = frozenset({"key", "entry", "element"})
"""What an entry of a table is. "key": all that a key (and namespace) has in the state. "entry", "element": of a map or
a list, the whole content or what has changed of it; in a store, an entry of a map, or some elements of a list."""
EXTERNAL_VERSION = "external-version"
"""The `store_file` of the one file that an external store has in snapshots: it says which version of it is meant."""


class Section(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a file: of a key group, or an item of a list. `crc` is the CRC-32 of its bytes."""

    group: int
    offset: int
    length: int
    crc: int


class TableInFile(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A table of which the file has entries. `full`: it has all, and earlier files are ignored for this table."""

    name: str
    full: bool
    schema: str = ""
    """Kind and type of the state, for tables that users' functions have named."""
    unit: str = "key"
    """What an entry is: one of UNITS. A reader refuses a unit that it does not know."""


class KeyedFile(msgspec.Struct, frozen=True, omit_defaults=True, rename={"store_file": "database"}):
    """A file of keyed state. `path` is relative to the directory of the job's checkpoints, or absolute."""

    path: str
    bytes: int
    tables: list[TableInFile] = []
    sections: list[Section] = []
    """Empty if there is a footer: `engine/state/snapshot/footer.py` finds them."""
    columns: bool = False
    """Whether it is a Parquet file of one table: then a section's offset is a row group, its length counts rows."""
    store_file: str = ""
    """Its name in a store's directory, if it is one of a store's own files: then sections are parts of any groups."""
    crc: int | None = None
    """CRC-32 of the whole file. None: it was written in manifest version 1."""
    parts: list[Section] = []
    """Of a Parquet file: all of its bytes, as its row groups and, last, its footer. Empty: it was written before there
    were any. A section's group is 0 then."""
    footer: Section | None = None
    """The end of the file, if its sections are listed there."""


class Redistribution(enum.Enum):
    """How the items of a list are given to subtasks after a restart. Flink docs, "Working with State"."""

    SPLIT = "split"
    """Round robin: each item to one subtask."""
    UNION = "union"
    """All items to each subtask."""
    BROADCAST = "broadcast"
    """Every subtask has the same items: those of one are enough."""
    IN_FLIGHT = "in flight"
    """Records on their way to the task, which no function has named: each subtask goes on with those that its inputs'
    partitioners would send it now."""


class ListInFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operator list state of one subtask."""

    name: str
    redistribution: Redistribution
    items: list[Section]
    schema: str = ""
    """Kind and type of the state, if a user's function has named it."""
    columns: KeyedFile | None = None
    """In a savepoint, the Parquet file that it has of its own: then a section's offset is a row, its length is 1."""

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return self.columns.bytes if self.columns is not None else sum(section.length for section in self.items)


class ListsFile(msgspec.Struct, frozen=True):
    """A file of operator state. Empty lists need none: `path` is "" then."""

    path: str
    bytes: int
    lists: list[ListInFile]
    crc: int | None = None
    """CRC-32 of the whole file. None: it was written in manifest version 1, or there is none."""


class OperatorState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one operator in one subtask."""

    keyed: list[KeyedFile] = []
    lists: ListsFile | None = None
    queryable: dict[str, str] = {}
    """By the names under which states are queried from outside: the table of each."""


class RestoredOperator(msgspec.Struct, frozen=True):
    """The state to restore in one subtask of an operator: chains of files, which hold its key groups, and lists."""

    chains: list[list[KeyedFile]] = []
    lists: list[tuple[str, ListInFile]] = []
    """Path of the file, and the list in it. A list may come in several parts."""
    goes_on: bool = False
    """Whether the next checkpoint may be incremental: refer to these files, and add only what has changed since."""


class SnapshotFigures(msgspec.Struct, frozen=True):
    """Measurements of a subtask's part of a checkpoint. Times in milliseconds, all else in bytes."""

    alignment_ms: float = 0
    sync_ms: float = 0
    async_ms: float = 0
    set_aside: int = 0
    written: int = 0
    total: int = 0
    start_delay_ms: float = 0
    """From the trigger to the first barrier, or to the snapshot of a source."""
    in_flight: int | None = None
    """Of an unaligned snapshot: what of it was in flight. None: it was aligned."""


class SubtaskState(msgspec.Struct, frozen=True):
    """The state of one subtask of a vertex: of its operators, by uid."""

    operators: dict[str, OperatorState] = {}
    figures: SnapshotFigures = SnapshotFigures()
    ended: bool = False
    """Whether the data of the subtask had ended."""


def store_files_of(chain: list[KeyedFile]) -> list[KeyedFile]:
    """Those files of a chain that are a store's own."""
    return [file for file in chain if file.store_file]


def files_of(states: Collection[OperatorState]) -> set[str]:
    """The paths of all files that these states consist of."""
    keyed = {file.path for state in states for file in state.keyed}
    lists = [state.lists for state in states if state.lists is not None]
    columns = {one.columns.path for file in lists for one in file.lists if one.columns is not None}
    return (keyed | columns | {file.path for file in lists}) - {""}
