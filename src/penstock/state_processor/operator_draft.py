"""An operator of a new savepoint: which state is retained from an earlier snapshot, and which is replaced."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from penstock.common.errors import StateNotFoundError
from penstock.engine.checkpoint.manifest import OperatorPart, SubtaskPart
from penstock.engine.checkpoint.storage import StateFiles
from penstock.engine.snapshots.keyed_table import KeyedTable, check_owners, tables_of
from penstock.engine.snapshots.missing_classes import classes_found
from penstock.engine.snapshots.operator_lists import lists_of
from penstock.engine.snapshots.snapshot_files import SnapshotFiles
from penstock.engine.state.handles import KeyedFile, ListsFile, OperatorState, Redistribution
from penstock.engine.state.key_groups import KeyGroups, key_group_range
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.schema import TableSchema, restored_schema
from penstock.engine.state.snapshot.files import read_items, write_lists
from penstock.engine.state.snapshot.storage import check_crc, complete_or_abort, read_part
from penstock.state_processor.new_tables import NewTable, changed, finished, write_entries

_COPIED_BYTES = 8 << 20


@dataclasses.dataclass
class NewList:
    """A new operator state."""

    redistribution: Redistribution
    items: list[Any]
    schema: TableSchema | None

    def of(self, subtask: int, part: OperatorPart) -> list[Any]:
        """Return the items of one subtask."""
        if self.redistribution is Redistribution.BROADCAST:
            return self.items
        if self.redistribution is Redistribution.UNION:
            return self.items if subtask == 0 else []
        return self.items[subtask :: part.parallelism]


@dataclasses.dataclass
class Change:
    """A change of a state's values. `schema` None: unchanged."""

    function: Callable[..., Any]
    schema: TableSchema | None


class OperatorDraft:
    """`part` is the operator in an earlier snapshot, if any; its files are read from `origin`."""

    def __init__(self, part: OperatorPart, origin: SnapshotFiles | None) -> None:
        self.part = part
        self._origin = origin
        self._tables = dict(tables_of(part))
        self._lists = set(lists_of(part))
        self._changes: dict[str, Change] = {}
        self.new_tables: dict[str, NewTable] = {}
        self.new_lists: dict[str, NewList] = {}

    @property
    def states(self) -> list[str]:
        """Names of all states."""
        return [*self._tables, *self.new_tables, *sorted(self._lists), *self.new_lists]

    def set_table(self, table: NewTable) -> None:
        """Set a keyed state, replacing an existing one."""
        self._tables.pop(table.name, None)
        self._changes.pop(table.name, None)
        self.new_tables[table.name] = table

    def set_list(self, name: str, new: NewList) -> None:
        """Set an operator state, replacing an existing one."""
        self._lists.discard(name)
        self.new_lists[name] = new

    def change(self, name: str, change: Change) -> None:
        """Transform the values of a keyed state. Raises StateNotFoundError if the snapshot lacks it."""
        self._check(name, name in self._tables)
        before = self._changes.get(name)
        if before is not None:
            change = Change(_after(before.function, change.function), change.schema or before.schema)
        self._changes[name] = change

    def remove(self, name: str) -> None:
        """Remove a state. Raises StateNotFoundError if the name is unknown."""
        self._check(name, name in self.states)
        self._tables.pop(name, None)
        self._changes.pop(name, None)
        self.new_tables.pop(name, None)
        self.new_lists.pop(name, None)
        self._lists.discard(name)

    def found(self, part: OperatorPart, storage: SnapshotFiles) -> None:
        """Add the state that a bootstrap job has written for the operator to the new savepoint."""
        self.part = part
        self._origin = storage
        self._tables = {name: text for name, text in tables_of(part).items() if name not in self.new_tables}
        self._lists = set(lists_of(part)) - set(self.new_lists)

    def write(self, storage: StateFiles, prefix: str) -> OperatorPart:
        """Write the operator; file names begin with `prefix`."""
        part = self.part
        key_groups = KeyGroups(part.max_parallelism)
        dealt = [
            (table, table.by_subtask(part.max_parallelism, part.parallelism)) for table in self.new_tables.values()
        ]
        by_subtask = {subtask.subtask: subtask.state for subtask in part.subtasks}
        subtasks = []
        for subtask in range(part.parallelism):
            before = by_subtask.get(subtask, OperatorState())
            name = f"{prefix}-{subtask}"
            keyed = self._kept(storage, prefix=name, subtask=subtask, files=before.keyed, key_groups=key_groups)
            for number, (table, entries) in enumerate(dealt):
                file_name = f"{name}-new-{number}.parquet"
                file = write_entries(
                    storage,
                    file_name=file_name,
                    table=(table.name, table.schema),
                    entries=entries[subtask],
                    key_groups=key_groups,
                )
                keyed += [file] if file is not None else []
            lists = self._lists_of(storage, f"{name}-lists", subtask, before.lists)
            if keyed or lists is not None:
                subtasks.append(SubtaskPart(subtask, OperatorState(keyed, lists)))
        return msgspec.structs.replace(part, subtasks=subtasks)

    def _kept(
        self, storage: StateFiles, prefix: str, subtask: int, files: list[KeyedFile], key_groups: KeyGroups
    ) -> list[KeyedFile]:
        """Write the retained keyed state of a subtask: copy files of savepoints, rewrite all other state."""
        part = self.part
        groups = key_group_range(subtask, part.max_parallelism, part.parallelism)
        kept = []
        if self._origin is not None:
            check_owners(self._origin.read, files, groups)
        for number, (name, text) in enumerate(self._tables.items()):
            chain = [file for file in files if any(table.name == name for table in file.tables)]
            change = self._changes.get(name)
            if change is None and all(file.columns for file in chain):
                for piece, file in enumerate(chain):
                    path = self._copied(storage, file, file.bytes, f"{prefix}-{number}-{piece}.parquet")
                    kept.append(msgspec.structs.replace(file, path=path))
                continue
            # Files of a checkpoint are increments, possibly of a database: merge them into one file of a savepoint.
            assert self._origin is not None
            rows: Iterable[Any] = KeyedTable(self._origin, part, name).rows_of_chain(chain, groups)
            schema = restored_schema(text)
            if change is not None:
                rows = changed(part.state_id, name, change.function, rows)
                schema = change.schema or schema
            (entries,) = NewTable(name, schema, _returning(rows)).by_subtask(part.max_parallelism, 1)
            written = write_entries(
                storage,
                file_name=f"{prefix}-{number}.parquet",
                table=(name, schema),
                entries=entries,
                key_groups=key_groups,
            )
            kept += [written] if written is not None else []
        return kept

    def _lists_of(
        self, storage: StateFiles, file_name: str, subtask: int, before: ListsFile | None
    ) -> ListsFile | None:
        lists = before.lists if before is not None else []
        if before is not None and not self.new_lists and all(one.name in self._lists for one in lists):
            return self._copied_lists(storage, before, file_name)
        items: list[NamedList] = []
        for one in lists:
            if one.name in self._lists:
                assert self._origin is not None
                assert before is not None
                with classes_found(False):
                    found = read_items(self._origin, before.path, one)
                items.append(NamedList(one.name, one.redistribution, found, restored_schema(one.schema)))
        items += [
            NamedList(name, new.redistribution, new.of(subtask, self.part), new.schema)
            for name, new in self.new_lists.items()
        ]
        return finished(write_lists(storage, file_name, items, columns=True)) if items else None

    def _copied_lists(self, storage: StateFiles, before: ListsFile, file_name: str) -> ListsFile:
        lists = []
        for number, one in enumerate(before.lists):
            if (columns := one.columns) is not None:
                path = self._copied(storage, columns, columns.bytes, f"{file_name}-{number}.parquet")
                one = msgspec.structs.replace(one, columns=msgspec.structs.replace(columns, path=path))
            lists.append(one)
        size = sum(one.bytes for one in lists if one.columns is None)
        path = self._copied(storage, before, size, file_name) if before.path else ""
        return msgspec.structs.replace(before, path=path, lists=lists)

    def _copied(self, storage: StateFiles, file: KeyedFile | ListsFile, size: int, file_name: str) -> str:
        """Copy a file unchanged to the new savepoint and return its path there. Raises CheckpointError if it can't."""
        assert self._origin is not None
        if self._origin is storage:
            return file.path
        crc = 0
        with complete_or_abort(storage.create(file_name, shared=False)) as writer:
            for start in range(0, size, _COPIED_BYTES):
                data = read_part(self._origin.read, file.path, start, min(_COPIED_BYTES, size - start))
                crc = zlib.crc32(data, crc)
                writer.write(data)
            if file.crc is not None:
                check_crc(crc, written=file.crc, path=file.path, offset=0, length=size)
        return writer.path

    def _check(self, name: str, is_there: bool) -> None:
        if not is_there:
            raise StateNotFoundError(
                f"operator '{self.part.state_id}' ({self.part.name}) has no state '{name}'. It has "
                f"{', '.join(map(repr, self.states)) or 'none'}"
            )


def _returning(rows: Iterable[Any]) -> Callable[[], Iterable[Any]]:
    return lambda: rows


def _after(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """Compose two changes; entries dropped by the first are not passed to the second."""

    def both(*row: Any) -> Any:
        value = first(*row)
        return None if value is None else second(*row[:-1], value)

    return both
