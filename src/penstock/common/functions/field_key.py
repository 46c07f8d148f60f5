"""Keys that are fields of the records, such as `key_by("airport")`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.common.types import Row
from penstock.common.types.record_fields import missing_field
from penstock.common.values.exact_floats import exact


class FieldKey:
    """A key selector that returns the field of a record, or a tuple of several fields.

    A record is a dict, a Row with field names, or an object with attributes. A dot is a part of a name, and a method is
    not a field. Raises TypeError for a record that lacks a field. Unlike a callable, it tells which fields make the
    key, so columns can be partitioned by it. `exact`: whether floats are compared bit by bit, as in tables.
    """

    def __init__(self, fields: tuple[str, ...], exact: bool = False) -> None:
        self.fields = fields
        self.exact = exact
        self._kind: type | None = None
        self._get: Callable[[Any], Any] = attrgetter(*fields)

    def __reduce__(self) -> tuple[type[FieldKey], tuple[tuple[str, ...], bool]]:
        return FieldKey, (self.fields, self.exact)

    def __call__(self, record: Any) -> Any:
        """Return the key of a record."""
        # Records of a stream have one class: the accessor for it is kept until another one comes.
        if type(record) is not self._kind:
            self._get = self._getter(record)
            self._kind = type(record)
        try:
            key = self._get(record)
        except (LookupError, AttributeError, ValueError, TypeError) as error:
            raise self._missing(record) from error
        return exact(key) if self.exact else key

    def _getter(self, record: Any) -> Callable[[Any], Any]:
        if type(record) is dict or isinstance(record, Row):
            return itemgetter(*self.fields)
        if isinstance(record, dict):
            return self._get_all
        for field in self.fields:
            # An attrgetter would follow dots, and return methods.
            if "." in field or inspect.isroutine(getattr(record, field, None)):
                raise missing_field(record, field)
        return attrgetter(*self.fields)

    def _get_all(self, record: Any) -> Any:
        found = tuple(self._get_one(record, field) for field in self.fields)
        return found if len(found) > 1 else found[0]

    def _missing(self, record: Any) -> Exception:
        for field in self.fields:
            try:
                self._get_one(record, field)
            except (LookupError, AttributeError, ValueError, TypeError):
                return missing_field(record, field)
        return TypeError(f"the fields {', '.join(self.fields)} of {record!r:.100} can't be read")

    def _get_one(self, record: Any, field: str) -> Any:
        if isinstance(record, dict) and field not in record:
            # Not by access: a defaultdict would insert it.
            raise KeyError(field)
        return record[field] if isinstance(record, (dict, Row)) else getattr(record, field)

    def key_type(self, record_type: TypeInformation | None) -> TypeInformation | None:
        """Return the type of the key of records of this type; None if it is not known."""
        if not isinstance(record_type, RowTypeInfo):
            return None
        types = dict(zip(record_type.get_field_names(), record_type.get_field_types(), strict=True))
        found = [types[field] for field in self.fields if field in types]
        if len(found) < len(self.fields):
            return None
        return found[0] if len(found) == 1 else TupleTypeInfo(found)

    def __repr__(self) -> str:
        return f"FieldKey({', '.join(map(repr, self.fields))})"


def is_exact(select: Any) -> bool:
    """Return whether a key selector compares floats bit by bit."""
    return isinstance(select, FieldKey) and select.exact
