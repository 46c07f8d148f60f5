"""Rows: records of fixed length with optional field names and a change kind."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, SupportsIndex, overload

from penstock.common.values.copies import ATOMS, Memo, copied_by, copy_of_part


class RowKind(enum.Enum):
    """The kind of change that a row describes. `str()` gives the short form of changelogs: +I, -U, +U, -D."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _KIND_SIGNS[self.value]


_KIND_SIGNS = ("+I", "-U", "+U", "-D")
_INSERT = RowKind.INSERT
_KINDS = tuple(RowKind)


@lru_cache(maxsize=1024)
def _names(names: tuple[Any, ...]) -> tuple[str, ...]:
    """Intern a tuple of names, so that the rows of a chunk share it, in memory and in a pickle."""
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"field names of a Row must be str, got {name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"field names of a Row must differ, got {', '.join(names)}")
    return names


@lru_cache(maxsize=1024)
def _positions_by_name(names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return the positions of the fields in the order of their names, or None if they have that order already."""
    positions = tuple(sorted(range(len(names)), key=names.__getitem__))
    return None if positions == tuple(range(len(names))) else positions


class Row:
    """A record of fixed length, with access to fields by position and, if they have names, by name.

    `Row(1, "a")` has positions only. `Row(id=1, name="a")` also has names, in the given order: `row[0]`, `row["id"]`
    and `row.id` are the same field. A Row of strings is also a factory: `Person = Row("id", "name")` creates
    `Person(1, "a")`. Raises ValueError if both positional and named values are given.

    Rows are equal if their class, kind, names and values are equal; the *order* of named fields is ignored, as in
    PyFlink. A row with hashable values can be a key, but must not be changed while it is used as a key.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _row_kind: RowKind
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ValueError("a Row takes either positional or named values, got both")
            self._fields = _names(tuple(kwargs))
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = list(args)
        self._row_kind = _INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Create a row of this kind; the values are passed as in `Row(...)`."""
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return a dict from names to values. `recursive`: nested rows, also in lists and dict values, become dicts.

        Raises TypeError if the fields have no names.
        """
        if self._fields is None:
            raise TypeError(f"{self!r} has no field names and can't be converted to a dict")
        values = map(_without_rows, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=True))

    def get_row_kind(self) -> RowKind:
        """Return the kind of change. Default: INSERT."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of change."""
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Set the names of the fields, in order. Raises ValueError unless there is one name per field."""
        if len(field_names) != len(self._values):
            raise ValueError(f"a Row of {len(self._values)} fields needs as many names, got {list(field_names)}")
        self._fields = _names(tuple(field_names))

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of these fields, in the given order; all values if the fields have no names.

        Raises ValueError if the row has no field of that name.
        """
        if self._fields is None:
            return self._values
        return [self._values[self._position(name)] for name in names]

    def _position(self, name: str) -> int:
        fields = self._fields
        if fields is None:
            raise ValueError(f"can't look up field {name!r}: the fields of {self!r} have no names")
        try:
            return fields.index(name)
        except ValueError:
            raise ValueError(f"a Row with the fields {', '.join(fields)} has no field {name!r}") from None

    @overload
    def __getitem__(self, item: SupportsIndex | str) -> Any: ...
    @overload
    def __getitem__(self, item: slice) -> list[Any]: ...
    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, str):
            return self._values[self._position(item)]
        return self._values[item]

    def __setitem__(self, item: SupportsIndex | slice | str, value: Any) -> None:
        if isinstance(item, str):
            self._values[self._position(item)] = value
        elif isinstance(item, slice):
            changed = self._values.copy()
            changed[item] = value
            if len(changed) != len(self._values):
                raise ValueError(
                    f"the length of a Row is fixed: expected {len(self._values)} values, got {value!r} for {item!r}"
                )
            self._values = changed
        else:
            self._values[item] = value

    def __getattr__(self, name: str) -> Any:
        # Names with an underscore are never fields: copy and pickle look them up before the slots are set.
        if not name.startswith("_"):
            fields = self._fields
            if fields is not None and name in fields:
                return self._values[fields.index(name)]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute or field {name!r}")

    def __call__(self, *args: Any) -> Row:
        """Create a row with these values, whose field names are the values of this row.

        If there are fewer values than names, the last names are dropped. Raises ValueError if there are more, TypeError
        if the values of this row are not strings.
        """
        if len(args) > len(self._values):
            raise ValueError(f"{self!r} creates rows of {len(self._values)} fields, got {len(args)} values")
        try:
            fields = _names(tuple(self._values))
        except TypeError:
            raise TypeError(f"only a Row of field names can be called to create rows, got {self!r}") from None
        row = Row(*args)
        row._fields = fields if len(args) == len(fields) else _names(fields[: len(args)])
        row._row_kind = self._row_kind
        return row

    def __contains__(self, item: object) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        assert isinstance(other, Row)
        if self._row_kind is not other._row_kind:
            return False
        if self._fields == other._fields:
            return self._values == other._values
        return row_identity(self) == row_identity(other)

    def __hash__(self) -> int:
        return hash(_values_by_name(self))

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self._fields, self._values, strict=True))})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._row_kind is _INSERT:
            return restored_row, (self.__class__, self._values, self._fields)
        return restored_row, (self.__class__, self._values, self._fields, self._row_kind.value)


def row_factory(names: Sequence[str]) -> Callable[[Iterable[Any]], Row]:
    """Return a function from values, as many as names, to a Row with these names.

    Formats use it: it takes a third of the time of `Row(*names)(*values)`. Raises TypeError or ValueError for names
    that Row refuses.
    """
    fields, new = _names(tuple(names)), Row.__new__

    def make(values: Iterable[Any]) -> Row:
        row = new(Row)
        row._fields = fields
        row._values = list(values)
        row._row_kind = _INSERT
        return row

    return make


def row_identity(row: Row) -> tuple[tuple[str, ...] | None, tuple[Any, ...], int]:
    """Return what equality of rows compares: sorted names or None, values in that order, number of the kind.

    Code that encodes rows as keys must encode this, rather than names and values in their given order.
    """
    fields = row._fields
    return fields and tuple(sorted(fields)), _values_by_name(row), row._row_kind.value


def _values_by_name(row: Row) -> tuple[Any, ...]:
    positions = None if row._fields is None else _positions_by_name(row._fields)
    if positions is None:
        return tuple(row._values)
    values = row._values
    return tuple([values[position] for position in positions])


def restored_row(row_class: type[Row], values: list[Any], fields: tuple[str, ...] | None, kind: int = 0) -> Row:
    """Restore a pickled Row. Snapshots contain the path `penstock.common.types.restored_row`, so it must not move."""
    # Copy the list, because `copy.copy` passes the list of the original row.
    row = row_class.__new__(row_class)
    row._fields = None if fields is None else _names(fields)
    row._values = values.copy()
    row._row_kind = _KINDS[kind]
    return row


def _without_rows(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_without_rows(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_rows(item) for key, item in value.items()}
    return value


def _copied(row: Row, memo: Memo | None) -> Row:
    if memo and (known := memo.get(id(row))) is not None:
        return known  # type: ignore[no-any-return]
    memo = {} if memo is None else memo
    new = memo[id(row)] = object.__new__(Row)
    new._fields, new._row_kind = row._fields, row._row_kind
    new._values = [value if type(value) in ATOMS else copy_of_part(value, memo) for value in row._values]
    return new


copied_by(Row, _copied)
