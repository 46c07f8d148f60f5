"""The keys of many rows at once: integers as an array, others as codes of the distinct ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

Integers = numpy.ndarray[Any, numpy.dtype[numpy.int64]]
Mask = numpy.ndarray[Any, numpy.dtype[numpy.bool_]]


class BatchKeys(NamedTuple):
    """The keys of a batch: row i has `keys[codes[i]]`."""

    keys: list[Any]
    """Different columns of values may yield equal keys: 0.0 and -0.0."""
    codes: Integers

    def at(self, index: slice | Integers | Mask) -> BatchKeys:
        """Return the keys of these rows."""
        return BatchKeys(self.keys, self.codes[index])

    def to_list(self) -> list[Any]:
        """Return the key of each row."""
        keys = self.keys
        return [keys[code] for code in self.codes.tolist()]


class IntegerKeys(NamedTuple):
    """The keys of a batch that are integers: those of one column, without nulls."""

    values: Integers

    def at(self, index: slice | Integers | Mask) -> IntegerKeys:
        """Return the keys of these rows."""
        return IntegerKeys(self.values[index])

    def to_list(self) -> list[Any]:
        """Return the key of each row."""
        return list(self.values.tolist())


RowKeys = BatchKeys | IntegerKeys
_INTEGER_MIN, _INTEGER_MAX = -(1 << 63), (1 << 63) - 1


def keys_of_values(keys: list[Any]) -> RowKeys:
    """Return the keys of rows: integers, if all are."""
    if are_integers(keys):
        return IntegerKeys(numpy.array(keys, numpy.int64))
    return BatchKeys(keys, numpy.arange(len(keys)))


def are_integers(keys: list[Any]) -> bool:
    """Return whether all keys are integers of 64 bits."""
    return all(type(key) is int and _INTEGER_MIN <= key <= _INTEGER_MAX for key in keys)


class TupleKeys(NamedTuple):
    """The keys of a batch that are tuples, part by part. `valid`: in which rows a part is not None; None: in all."""

    parts: tuple[IntegerKeys | BatchKeys, ...]
    valid: tuple[Mask | None, ...]

    def at(self, index: slice | Integers | Mask) -> TupleKeys:
        """Return the keys of these rows."""
        parts = tuple(part.at(index) for part in self.parts)
        return TupleKeys(parts, tuple(None if valid is None else valid[index] for valid in self.valid))

    def to_list(self) -> list[Any]:
        """Return the key of each row."""
        columns = [
            part.to_list()
            if valid is None
            else [value if is_valid else None for value, is_valid in zip(part.to_list(), valid.tolist(), strict=True)]
            for part, valid in zip(self.parts, self.valid, strict=True)
        ]
        return list(zip(*columns, strict=True))
