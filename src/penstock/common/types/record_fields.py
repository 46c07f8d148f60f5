"""Access to the fields of a record: a dict, a Row, a tuple, a list, or an object with attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.common.types import Row


def fields_of(record: Any, names: tuple[str, ...], has_all: bool = True) -> Sequence[Any]:
    """Return the values of a record's fields, in the order of `names`.

    Fields are matched by name if the record has names, else by position. Raises ValueError or TypeError on a mismatch.
    `has_all` False: what a dict does not have is None, as in files, where a field may be left out.
    """
    if isinstance(record, dict):
        if not has_all:
            return [record.get(name) for name in names]
        try:
            return [record[name] for name in names]
        except KeyError as error:
            raise TypeError(
                f"expected a record with the fields {', '.join(names)}, got {record!r}: {error} is missing. A field "
                "without a value is None"
            ) from None
    if isinstance(record, Row):
        fields = record._fields
        if fields is not None:
            return list(record) if fields == names else record.get_fields_by_names(names)
    elif not isinstance(record, (tuple, list)) or hasattr(record, "_fields"):
        try:
            return [getattr(record, name) for name in names]
        except AttributeError as error:
            raise TypeError(f"expected a record with the fields {', '.join(names)}, got {record!r}: {error}") from None
    values = list(record)
    if len(values) != len(names):
        raise ValueError(f"expected a record with the fields {', '.join(names)}, got {record!r}")
    return values
