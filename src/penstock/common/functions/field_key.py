"""Keys that are fields of the records, such as `key_by("airport")`."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

from penstock.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.common.types import Row
from penstock.common.types.record_fields import missing_field


class FieldKey:
    """A key selector that returns the field of a record, or a tuple of several fields.

    A record is a dict, a Row with field names, or an object with attributes. Raises TypeError for a record that lacks
    a field. Unlike a callable, it tells which fields make the key, so columns can be partitioned by it.
    """

    def __init__(self, fields: tuple[str, ...]) -> None:
        self.fields = fields
        self._kind: type | None = None
        self._get: Callable[[Any], Any] = attrgetter(*fields)

    def __reduce__(self) -> tuple[type[FieldKey], tuple[tuple[str, ...]]]:
        return FieldKey, (self.fields,)

    def __call__(self, record: Any) -> Any:
        """Return the key of a record."""
        # Records of a stream have one class: the accessor for it is kept until another one comes.
        if type(record) is not self._kind:
            self._kind = type(record)
            is_mapping = isinstance(record, (dict, Row))
            self._get = itemgetter(*self.fields) if is_mapping else attrgetter(*self.fields)
        try:
            return self._get(record)
        except (LookupError, AttributeError, ValueError, TypeError) as error:
            raise self._missing(record) from error

    def _missing(self, record: Any) -> Exception:
        for field in self.fields:
            try:
                self._get_one(record, field)
            except (LookupError, AttributeError, ValueError, TypeError):
                return missing_field(record, field)
        return TypeError(f"the fields {', '.join(self.fields)} of {record!r:.100} can't be read")

    def _get_one(self, record: Any, field: str) -> Any:
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
