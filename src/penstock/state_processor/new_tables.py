"""New keyed state: rows are validated, distributed to subtasks by key, and written in the savepoint format."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from penstock.api.state.descriptors import StateDescriptor
from penstock.common.errors import PenstockError, ProgramError, UserFunctionError, class_names
from penstock.common.errors.user_traceback import user_traceback
from penstock.common.typeinfo import TypeInformation
from penstock.engine.checkpoint.storage import StateFiles
from penstock.engine.runtime.task.context import shortened
from penstock.engine.snapshots.keyed_table import TIMERS, place_columns, row_columns
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.key_groups import KeyGroups, key_group_of, subtask_of
from penstock.engine.state.schema import TableSchema, schema_of
from penstock.engine.state.snapshot.files import write_columns
from penstock.engine.state.tables import FrozenTable, pieces_of

T = TypeVar("T")
Entries = dict[Any, Any]
"""entry key -> value"""
_CONTENTS = {"list": list, "map": dict}


class NewTable(NamedTuple):
    """A table to be written. `rows` is called when it is written."""

    name: str
    schema: TableSchema | None
    rows: Callable[[], Iterable[tuple[Any, ...]]]

    def by_subtask(self, max_parallelism: int, parallelism: int) -> list[Entries]:
        """Return the entries of each subtask.

        Raises ProgramError for rows of the wrong form, or two rows for one position; KeyTypeError for an invalid key.
        """
        dealt: list[Entries] = [{} for _ in range(parallelism)]
        columns = row_columns(self.name)
        keyed_by_first = len(place_columns(self.name)) > 1
        rows: Iterable[Any] = self.rows()
        for row in rows:
            if not isinstance(row, (tuple, list)) or len(row) != len(columns):
                raise ProgramError(
                    f"an entry of the state '{self.name}' must be ({', '.join(columns)}), got {row!r:.200}"
                )
            *parts, value = (*row, True) if self.name in TIMERS else row
            parts[0] = as_key(parts[0])
            self._check(parts, value)
            entry_key = tuple(parts) if keyed_by_first else parts[0]
            group = key_group_of(parts[0], max_parallelism)
            entries = dealt[subtask_of(group, max_parallelism, parallelism)]
            if entry_key in entries:
                raise ProgramError(
                    f"the state '{self.name}' has two entries for {entry_key!r:.200}; exactly one is allowed"
                )
            entries[entry_key] = value
        return dealt

    def _check(self, parts: list[Any], value: Any) -> None:
        kind = self.schema.kind.partition(" of ")[0] if self.schema is not None else ""
        if value is None:
            raise ProgramError(f"the state '{self.name}' has no value for {parts[0]!r:.200}: omit such an entry")
        expected = _CONTENTS.get(kind.partition(" ")[0])
        if expected is not None and type(value) is not expected:
            raise ProgramError(f"the {kind} '{self.name}' holds a {expected.__name__} for each key, got {value!r:.200}")
        if not kind.endswith("time to live"):
            return
        stamped = value if type(value) is list else value.values() if type(value) is dict else [value]
        for one in stamped:
            if not (isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], int)):
                raise ProgramError(
                    f"the {kind} '{self.name}' stores (time of the last use in ms, value), got {one!r:.200}"
                )


def named(descriptor: StateDescriptor | str) -> tuple[str, TableSchema | None]:
    """Return name and schema of a table. Raises TypeError for anything but a descriptor or a name."""
    if isinstance(descriptor, StateDescriptor):
        return descriptor.get_name(), schema_of(descriptor)
    if isinstance(descriptor, str):
        return descriptor, None
    raise TypeError(f"expected a state descriptor, or a name as listed by SavepointReader; got {descriptor!r}")


def column_types(descriptor: StateDescriptor | str, key_type: TypeInformation | None) -> dict[str, Any]:
    """Return the declared types of a DataFrame's columns."""
    value = schema_of(descriptor).type if isinstance(descriptor, StateDescriptor) else None
    return {"key": key_type, "value": value}


def changed(
    uid: str, state: str, change: Callable[..., Any], rows: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows with `change` applied to their values, without those for which it returns None.

    Raises UserFunctionError naming the row for which it failed.
    """
    for row in rows:
        try:
            value = change(*row)
        except Exception as error:
            if isinstance(error, PenstockError):
                raise
            lines = "\n".join("  " + line for line in user_traceback(error).splitlines())
            raise UserFunctionError(
                f"the change of the state '{state}' of operator '{uid}'\n  entry {shortened(row)}\n{lines}",
                class_names(error),
            ) from error
        if value is not None:
            yield *row[:-1], value


def write_entries(
    storage: StateFiles,
    file_name: str,
    table: tuple[str, TableSchema | None],
    entries: Entries,
    key_groups: KeyGroups,
) -> KeyedFile | None:
    """Write a table of one subtask. Returns None if it is empty and so has no file."""
    name, schema = table
    frozen = FrozenTable(lambda: pieces_of([entries]), full=True, keyed_by_first=len(place_columns(name)) > 1)
    return finished(write_columns(storage, name=file_name, table=(name, frozen), key_groups=key_groups, schema=schema))


def finished(steps: Generator[None, None, T]) -> T:
    """Run a generator of small steps to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
