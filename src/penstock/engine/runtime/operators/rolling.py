"""sum, min, max, min_by and max_by on keyed streams: reduce functions over one field, or over the value itself.

`min` and `max` replace the field and keep the rest of the first record; `min_by` and `max_by` keep the whole record
that has it, the first one on a tie. Source: Flink docs, "Operators", Aggregations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.types import Row
from penstock.common.types.replaced_field import declared_names, with_field


class FieldReduce:
    """Base: reads a field by position or name; position 0 of a value without fields is the value.

    Raises TypeError for a value that has no such field.
    """

    replaces = True
    """Whether records are made in which the field has another value."""

    def __init__(self, field: int | str) -> None:
        self.field = field

    def get(self, value: Any) -> Any:
        """The field of `value`."""
        field: Any = self.field
        try:
            if isinstance(value, (dict, Row)):
                return value[field]
            if isinstance(field, str):
                return getattr(value, field)
            if isinstance(value, (tuple, list)):
                return value[field]
        except (LookupError, AttributeError, ValueError) as error:
            raise self._missing(value) from error
        if field != 0 or declared_names(type(value)) is not None:
            raise self._missing(value)
        return value

    def check(self, value: Any) -> None:
        """Raise TypeError if records such as `value` lack the field, or it can't be replaced in them."""
        found = self.get(value)
        if self.replaces:
            self.put(value, found)

    def _missing(self, value: Any) -> TypeError:
        fields = list(value) if isinstance(value, dict) else getattr(value, "_fields", None)
        fields = declared_names(type(value)) if fields is None else fields
        if fields is not None:
            has = f"has {', '.join(map(str, fields))}"
        else:
            has = f"has {len(value)} of them" if isinstance(value, (tuple, list, Row)) else "has none"
        field = f"'{self.field}'" if isinstance(self.field, str) else f"at position {self.field}"
        return TypeError(f"there is no field {field}: the {type(value).__name__} {has}")

    def put(self, value: Any, new: Any) -> Any:
        """A copy of `value` with that field replaced. Raises TypeError if it can't be."""
        if self.field == 0 and not isinstance(value, (tuple, list, dict, Row)):
            return new
        try:
            return with_field(value, self.field, new)
        except Exception as error:
            raise TypeError(
                f"field {self.field!r} of the {type(value).__name__} can't be replaced: {error}. Use reduce, with a "
                "function that makes the record"
            ) from error


class SumReduce(FieldReduce):
    """Adds the field up."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        if type(value1) is tuple and len(value1) == 2 and self.field == 1:
            # (key, number), the shape of most sums: twice as fast as finding out what a value is made of.
            return value1[0], value1[1] + value2[1]
        return self.put(value1, self.get(value1) + self.get(value2))


class BestReduce(FieldReduce):
    """Keeps the least or greatest field (`whole`: the record that has it)."""

    def __init__(self, field: int | str, better: Callable[[Any, Any], bool], whole: bool) -> None:
        super().__init__(field)
        self.better = better
        self.whole = whole
        self.replaces = not whole

    def reduce(self, value1: Any, value2: Any) -> Any:
        new = self.get(value2)
        if not self.better(new, self.get(value1)):
            return value1
        return value2 if self.whole else self.put(value1, new)
