"""Entries of a struct of arrays in a snapshot: pieces of many entries, whose keys and values are arrays.

A piece is also a list of entry keys and one of values, as those of other tables are, so that tables of rows restore it.
Stored, it is a tuple of plain values: the bytes of arrays with NumPy's names of their types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from penstock.engine.state.arrays.row_keys import Integers, Mask

if TYPE_CHECKING:
    from penstock.engine.state.arrays.arrow_rows import ArrowRows

COUNT, VALUE, WIDE, AVERAGE, WIDE_AVERAGE = "count", "value", "wide", "average", "wide average"
NUMBERS, OBJECTS, ROWS = "numbers", "objects", "rows"
"""The forms of a column; see `_VALUES_OF`."""
TIME = "time"
"""The form of a first column with the time of each key's last use (ms). Then a value is (time, the other columns)."""
LOW_BITS = 32
"""An integer of form WIDE is `high << LOW_BITS | low`."""
Array = numpy.ndarray[Any, numpy.dtype[Any]]
_ARROW = "arrow"
_Stored = tuple[str, Any]
"""NumPy's name of a type, and the bytes of an array, or for an array of objects a list; _ARROW and rows of Arrow."""


class StoredColumn(NamedTuple):
    """A value for each of several keys, in arrays by position: `form` tells what the arrays are."""

    form: str
    parts: tuple[Any, ...]
    """Arrays of NumPy, or ArrowRows."""

    def values(self) -> list[Any]:
        """Return the values as Python's: what an operator on rows stores for these keys."""
        return _VALUES_OF[self.form](*self.parts)

    def at(self, index: Integers | slice) -> StoredColumn:
        """Return the values at these positions."""
        return StoredColumn(self.form, tuple(part[index] for part in self.parts))


class ArrayKeys(Sequence[Any]):
    """The entry keys of a piece: keys, or with `starts`, those of slices of time (ms), pairs (key, start)."""

    def __init__(self, keys: Integers | list[Any], starts: Integers | None = None) -> None:
        self.keys = keys
        self.starts = starts

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Any]:
        keys = self.of_python()
        return iter(keys) if self.starts is None else zip(keys, self.starts.tolist(), strict=True)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def of_python(self) -> list[Any]:
        """Return the keys without starts."""
        return self.keys if isinstance(self.keys, list) else list(self.keys.tolist())

    def at(self, index: Integers | slice) -> ArrayKeys:
        """Return the entry keys at these positions."""
        starts = None if self.starts is None else self.starts[index]
        if isinstance(self.keys, list):
            keys = self.keys
            numbers = range(len(keys))[index] if isinstance(index, slice) else index.tolist()
            return ArrayKeys([keys[number] for number in numbers], starts)
        return ArrayKeys(self.keys[index], starts)


class ArrayValues(Sequence[Any]):
    """The values of a piece, a tuple for each entry. No `columns`: the entries are removed, and their value is None."""

    def __init__(self, columns: tuple[StoredColumn, ...] | None, length: int) -> None:
        self.columns = columns
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        if self.columns is None:
            return iter([None] * self._length)
        if not self.columns:
            # Of windows that have bounds, and no aggregates.
            return iter([()] * self._length)
        columns = [column.values() for column in self.columns]
        if self.columns[0].form == TIME:
            return zip(columns[0], zip(*columns[1:], strict=True), strict=True)
        return zip(*columns, strict=True)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


class Piece(NamedTuple):
    """Entries of one table: of the same kind of keys, and with columns of the same forms, or all removed."""

    keys: ArrayKeys
    values: ArrayValues

    def __len__(self) -> int:
        return len(self.keys)

    def signature(self) -> tuple[Any, ...]:
        """Return what pieces must have in common to be joined."""
        columns, keys = self.values.columns, self.keys
        forms = None if columns is None else tuple((one.form, *map(_kind_of, one.parts)) for one in columns)
        return isinstance(keys.keys, list), keys.starts is None, forms

    def at(self, index: Integers | slice) -> Piece:
        """Return the entries at these positions."""
        keys, columns = self.keys.at(index), self.values.columns
        return Piece(keys, ArrayValues(None if columns is None else tuple(one.at(index) for one in columns), len(keys)))

    def by_start(self) -> Iterator[tuple[int, Piece]]:
        """Yield the entries of each slice of time, by its start."""
        assert self.keys.starts is not None
        order = numpy.argsort(self.keys.starts, kind="stable")
        starts, firsts = numpy.unique(self.keys.starts[order], return_index=True)
        for start, rows in zip(starts.tolist(), numpy.split(order, firsts[1:]), strict=True):
            yield start, self.at(rows)


def piece_of(keys: Integers | list[Any], columns: tuple[StoredColumn, ...] | None, start: int | None = None) -> Piece:
    """Return entries of keys, all of the slice of time that starts at `start` (ms), if there are slices."""
    starts = None if start is None else numpy.full(len(keys), start, numpy.int64)
    return Piece(ArrayKeys(keys, starts), ArrayValues(columns, len(keys)))


def joined_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """Join pieces as far as they have the same signature."""
    by_signature: dict[tuple[Any, ...], list[Piece]] = {}
    for piece in pieces:
        if len(piece):
            by_signature.setdefault(piece.signature(), []).append(piece)
    return [_joined(alike) for alike in by_signature.values()]


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    keys: Any = [piece.keys.keys for piece in pieces]
    keys = [key for some in keys for key in some] if isinstance(keys[0], list) else numpy.concatenate(keys)
    starts = [piece.keys.starts for piece in pieces if piece.keys.starts is not None]
    columns: list[StoredColumn] | None = None
    if pieces[0].values.columns is not None:
        by_column = zip(*(piece.values.columns or () for piece in pieces), strict=True)
        columns = [
            StoredColumn(alike[0].form, tuple(map(_joined_parts, zip(*(one.parts for one in alike), strict=True))))
            for alike in by_column
        ]
    values = ArrayValues(None if columns is None else tuple(columns), len(keys))
    return Piece(ArrayKeys(keys, numpy.concatenate(starts) if starts else None), values)


def packed(piece: Piece) -> tuple[Any, ...]:
    """Return a piece as a tuple of plain values, to be pickled."""
    keys, columns = piece.keys, piece.values.columns
    stored_keys = keys.keys if isinstance(keys.keys, list) else _packed_array(keys.keys)
    stored_starts = None if keys.starts is None else _packed_array(keys.starts)
    stored = None if columns is None else [(one.form, tuple(map(_packed_array, one.parts))) for one in columns]
    return stored_keys, stored_starts, stored


def unpacked(stored: tuple[Any, ...]) -> Piece:
    """Return the piece that `packed` made a tuple of."""
    stored_keys, stored_starts, stored_columns = stored
    keys: Any = stored_keys if isinstance(stored_keys, list) else _unpacked_array(stored_keys)
    starts = None if stored_starts is None else _unpacked_array(stored_starts)
    columns = None
    if stored_columns is not None:
        columns = tuple(StoredColumn(form, tuple(map(_unpacked_array, parts))) for form, parts in stored_columns)
    return Piece(ArrayKeys(keys, starts), ArrayValues(columns, len(keys)))


def _kind_of(part: Array | ArrowRows) -> str:
    return part.dtype.str if isinstance(part, numpy.ndarray) else part.kind


def _joined_parts(parts: Sequence[Any]) -> Array | ArrowRows:
    return numpy.concatenate(parts) if isinstance(parts[0], numpy.ndarray) else parts[0].joined(parts[1:])


def _packed_array(array: Array | ArrowRows) -> _Stored:
    if not isinstance(array, numpy.ndarray):
        return _ARROW, array.stored()
    if array.dtype == object:
        return array.dtype.str, array.tolist()
    # The machine that restores may have another order of bytes.
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little.dtype.str, little.tobytes()


def _unpacked_array(stored: _Stored) -> Any:
    kind, data = stored
    if kind == _ARROW:
        # Only here: state without columns needs no Arrow.
        from penstock.engine.state.arrays.arrow_rows import rows_of_stored

        return rows_of_stored(data)
    if isinstance(data, list):
        return numpy.fromiter(data, object, len(data))
    array: Array = numpy.frombuffer(data, kind)
    return array


def _optional(values: Array, exists: Mask) -> list[Any]:
    found: list[Any] = values.tolist()
    if exists.all():
        return found
    return [value if is_one else None for value, is_one in zip(found, exists.tolist(), strict=True)]


def _wide(high: Integers, low: Integers, exists: Mask) -> list[Any]:
    totals = [(upper << LOW_BITS) + lower for upper, lower in zip(high.tolist(), low.tolist(), strict=True)]
    return [total if is_one else None for total, is_one in zip(totals, exists.tolist(), strict=True)]


def _average(values: Array, exists: Mask, counts: Integers) -> list[Any]:
    return _with_counts(_optional(values, exists), counts)


def _wide_average(high: Integers, low: Integers, exists: Mask, counts: Integers) -> list[Any]:
    return _with_counts(_wide(high, low, exists), counts)


def _numbers(*parts: Array) -> list[Any]:
    *arrays, exists = parts
    numbers = zip(*(array.tolist() for array in arrays), strict=True)
    return [each if is_one else None for each, is_one in zip(numbers, exists.tolist(), strict=True)]


def _rows(rows: ArrowRows, exists: Mask) -> list[Any]:
    found = rows.tuples()
    if exists.all():
        return found
    return [row if is_one else None for row, is_one in zip(found, exists.tolist(), strict=True)]


def _with_counts(totals: list[Any], counts: Integers) -> list[Any]:
    pairs = zip(totals, counts.tolist(), strict=True)
    return [None if total is None else (total, count) for total, count in pairs]


_VALUES_OF: dict[str, Callable[..., list[Any]]] = {
    COUNT: lambda counts: counts.tolist(),
    TIME: lambda times: times.tolist(),
    OBJECTS: lambda values: values.tolist(),
    VALUE: _optional,
    WIDE: _wide,
    AVERAGE: _average,
    WIDE_AVERAGE: _wide_average,
    NUMBERS: _numbers,
    ROWS: _rows,
}
"""Form -> a function from arrays to values. An average is (sum, count), NUMBERS are a tuple of any length. `exists`:
whether there is a value, or None."""
