"""Access to the fields of a record: a dict, a Row, a tuple, a list, or an object with attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types import Row
from penstock.common.types.replaced_field import declared_names


def fields_of(record: Any, names: tuple[str, ...], has_all: bool = True) -> Sequence[Any]:
    """Return the values of a record's fields, in the order of `names`.

    Fields are matched by name if the record has names, else by position. If not `has_all`, a field that a dict lacks is
    None, as in files, where fields may be left out. Raises ValueError or TypeError on a mismatch.
    """
    if isinstance(record, dict):
        if not has_all:
            return [record.get(name) for name in names]
        try:
            return [record[name] for name in names]
        except KeyError as error:
            raise TypeError(
                f"expected a record with the fields {', '.join(names)}, got {record!r}: {error} is missing. Set "
                "fields without a value to None"
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


def missing_field(record: Any, field: int | str) -> TypeError:
    """Return the error of a record without this field, which names the fields that it has."""
    fields = list(record) if isinstance(record, dict) else getattr(record, "_fields", None)
    fields = declared_names(type(record)) if fields is None else fields
    if fields is not None:
        has = f"has {', '.join(map(str, fields))}"
    else:
        has = f"has {len(record)} fields" if isinstance(record, (tuple, list, Row)) else "has no fields"
    name = f"'{field}'" if isinstance(field, str) else f"at position {field}"
    return TypeError(f"there is no field {name}: the {type(record).__name__} {has}")


def dict_factory(names: Sequence[str]) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Return a function from values, in the order of `names`, to a dict.

    It is compiled for these names: that takes a third of the time of `dict(zip(names, values))`.
    """
    variables = [f"value{index}" for index in range(len(names))]
    # Names may be of a class with another repr, such as NumPy's texts.
    items = ", ".join(f"{str.__repr__(name)}: {variable}" for name, variable in zip(names, variables, strict=True))
    scope: dict[str, Any] = {}
    exec(f"def make(values):\n    [{', '.join(variables)}] = values\n    return {{{items}}}", scope)
    make: Callable[[Sequence[Any]], dict[str, Any]] = scope["make"]
    return make


def object_factory(kind: Any, names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """Return a function from values, in the order of `names`, to an object of the class, as if unpickled.

    `__init__` and `__post_init__` have run when the object was made: a second run might change its fields.
    """
    new = object.__new__
    if hasattr(kind, "__slots__"):
        put = object.__setattr__

        def make_slotted(values: Sequence[Any]) -> Any:
            record = new(kind)
            for name, value in zip(names, values, strict=True):
                put(record, name, value)
            return record

        return make_slotted

    def make(values: Sequence[Any]) -> Any:
        record = new(kind)
        record.__dict__.update(zip(names, values, strict=True))
        return record

    return make
