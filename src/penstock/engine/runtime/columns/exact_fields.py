"""Fields of records as columns that have exactly the same values: where a record differs from its declared type, none.

A declared type need not be true: `Types.DOUBLE()` may have the integer 3, whose sum is 3 and not 3.0. So a chunk
becomes columns only if each value has the one type of Python that its column gives back, and fits into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, is_, itemgetter
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_key import FieldKey
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import Row
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.row_kinds import kinds_of

_NONE = type(None)
_VALUES, _FIELDS = attrgetter("_values"), attrgetter("_fields")


def exact_kind(kind: pyarrow.DataType) -> type | None:
    """Return the one type of Python whose values a column of this type keeps; None if there is none."""
    if pyarrow.types.is_signed_integer(kind):
        return int
    if pyarrow.types.is_string(kind):
        return str
    if pyarrow.types.is_float64(kind):
        return float
    return bool if pyarrow.types.is_boolean(kind) else None


def are_exact(values: Sequence[Any], kind: type) -> bool:
    """Return whether all values are of this type, or None."""
    return set(map(type, values)) <= {kind, _NONE}


class ExactFields:
    """Makes columns of records. `columns`: those to make, all of types that `exact_kind` has.

    `whole`: the columns are all that a record has, so that it can be made of them again: it is a Row of these fields.
    """

    def __init__(self, columns: RecordColumns, whole: bool = False) -> None:
        self._names = columns.names
        self._schema = columns.schema
        self._kinds = [kind for one in columns.schema.types if (kind := exact_kind(one)) is not None]
        assert len(self._kinds) == len(self._names)
        self._limits = [_limit(kind) for kind in columns.schema.types]
        self._whole = whole
        self._getters: dict[tuple[str, ...], list[Callable[[Any], Any]]] = {}
        """Fields of a Row -> what gets the values of the columns from the list of its values."""

    def columns_of(self, chunk: Rows) -> Columns | None:
        """Return a chunk as columns; None if a record differs from them."""
        try:
            values = self._values_of(chunk.values)
            if values is None or not all(map(are_exact, values, self._kinds)):
                return None
            # An integer may have too many bits, and a text half of a surrogate pair.
            arrays = list(map(pyarrow.array, values, self._schema.types))
            times = None if chunk.timestamps is None else numpy.array(chunk.timestamps, numpy.int64)
        except RAISED:
            return None
        batch = pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)
        return Columns(batch, times, kinds_of(chunk.values) if self._whole else None)

    def are_exact(self, chunk: Rows) -> bool:
        """Return whether all values are of the types of their columns, of any size."""
        try:
            values = self._values_of(chunk.values)
        except RAISED:
            return False
        return values is not None and all(map(are_exact, values, self._kinds))

    def lists_of(self, chunk: Rows) -> list[list[Any]] | None:
        """Return the values that `columns_of` would have, without Arrow; None if a record differs. For few records."""
        values = self._values_of(chunk.values)
        if values is None:
            return None
        for column, kind, limit in zip(values, self._kinds, self._limits, strict=True):
            if not are_exact(column, kind) or (limit and not _fit(column, limit)):
                return None
        return values

    def _values_of(self, records: Sequence[Any]) -> list[list[Any]] | None:
        """Return the values of each column, as a program on rows reads them."""
        kinds = set(map(type, records))
        if kinds != {Row}:
            if self._whole or len(kinds) > 1:
                return None
            return [list(map(FieldKey((name,)), records)) for name in self._names]
        fields = records[0]._fields
        if fields is None:
            return None
        # Names are interned, so that most are the same object.
        if not all(map(is_, map(_FIELDS, records), repeat(fields))) and set(map(_FIELDS, records)) != {fields}:
            return None
        getters = self._getters.get(fields)
        if getters is None:
            if self._whole and fields != self._names:
                return None
            getters = self._getters[fields] = [itemgetter(fields.index(name)) for name in self._names]
        values = list(map(_VALUES, records))
        return [list(map(get, values)) for get in getters]


def _limit(kind: pyarrow.DataType) -> int | None:
    """Return the bound of the integers of a column, or 1 for texts; None: all values of its type fit."""
    if pyarrow.types.is_signed_integer(kind):
        return 1 << (kind.bit_width - 1)  # type: ignore[no-any-return]
    return 1 if pyarrow.types.is_string(kind) else None


def _fit(values: Sequence[Any], limit: int) -> bool:
    """Return whether integers are within the limit, or texts have no half of a surrogate pair."""
    present = [value for value in values if value is not None] if None in values else values
    if not present:
        return True
    if limit > 1:
        return bool(-limit <= min(present) and max(present) < limit)
    try:
        "".join(present).encode()
    except UnicodeEncodeError:
        return False
    return True
