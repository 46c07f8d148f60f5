"""The types of keys that a program declares, compared with the keys of a restored state."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow
from pyarrow import types as arrow

from penstock.common.errors import CheckpointError
from penstock.engine.state.arrays.row_keys import Integers


class DeclaredKeys(NamedTuple):
    """The fields of a key with their types in Arrow, and the operator whose keys they are, for errors."""

    operator_name: str
    fields: tuple[pyarrow.Field, ...]

    def check(self, keys: Integers | list[Any]) -> None:
        """Raise CheckpointError for keys of other types: no record would have them, or results could not."""
        if isinstance(keys, list):
            self._check_objects(keys)
        elif len(keys) and not (len(self.fields) == 1 and arrow.is_integer(self.fields[0].type)):
            self._check_objects(keys[:1].tolist())

    def _check_objects(self, keys: Sequence[Any]) -> None:
        if len(self.fields) == 1:
            self._check_field(self.fields[0], keys)
            return
        count = len(self.fields)
        wrong = next((key for key in keys if type(key) is not tuple or len(key) != count), None)
        if wrong is not None:
            raise self._refusal(wrong, f"{count} fields")
        for field, values in zip(self.fields, zip(*keys, strict=True), strict=False):
            self._check_field(field, values)

    def _check_field(self, field: pyarrow.Field, values: Iterable[Any]) -> None:
        expected = _python_type(field.type)
        if expected is None or set(map(type, values)) <= {expected, type(None)}:
            return
        raise self._refusal(next(one for one in values if type(one) not in (expected, type(None))), "")

    def _refusal(self, value: Any, wanted: str) -> CheckpointError:
        declared = ", ".join(f"{field.name}: {field.type}" for field in self.fields)
        return CheckpointError(
            f"operator '{self.operator_name}': the state has keys of type {type(value).__name__}, such as "
            f"{value!r:.100}; the program has keys of {wanted or 'the type'} ({declared}). Give the fields of the key "
            "the type with which the state was written, or give the operator another uid, which starts without it"
        )


def declared_keys(operator_name: str, schema: pyarrow.Schema, key_fields: Sequence[str]) -> DeclaredKeys:
    """Return the declaration of a key: these fields of records with this schema."""
    return DeclaredKeys(operator_name, tuple(schema.field(name) for name in key_fields))


def _python_type(kind: pyarrow.DataType) -> type | None:
    """Return Python's type of the values of a column; None if they may have several types."""
    if arrow.is_dictionary(kind):
        return _python_type(kind.value_type)
    return next((python for is_kind, python in _TYPES if is_kind(kind)), None)


_TYPES: tuple[tuple[Any, type], ...] = (
    (arrow.is_integer, int),
    (arrow.is_boolean, bool),
    (arrow.is_floating, float),
    (arrow.is_string, str),
    (arrow.is_large_string, str),
    (arrow.is_binary, bytes),
    (arrow.is_decimal, decimal.Decimal),
    (arrow.is_date, datetime.date),
)
