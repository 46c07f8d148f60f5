"""Copies of records with another value in one field, for all kinds of records."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.common.types import Row

Replace = Callable[[Any, int | str, Any], Any]


def with_field(record: Any, field: int | str, new: Any) -> Any:
    """Return a copy of `record` in which `field`, a name or position, is `new`.

    Raises TypeError, AttributeError, LookupError or ValueError if the field can't be replaced.
    """
    kind: Any = type(record)
    return _replace_of(kind)(record, field, new)


def declared_names(kind: type) -> Sequence[str] | None:
    """Return the names of the fields that a class declares, in order, or None if it declares no fields."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    for names in ("_fields", "__struct_fields__", "__pydantic_fields__"):
        declared = getattr(kind, names, None)
        if isinstance(declared, (tuple, dict)):
            return tuple(declared)
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


@functools.lru_cache(maxsize=1000)
def _replace_of(kind: type) -> Replace:
    """Return the function that replaces a field of records of this class."""
    if issubclass(kind, tuple):
        return _in_tuple
    if issubclass(kind, (list, dict)):
        return _in_container
    if issubclass(kind, Row):
        return _in_row
    if issubclass(kind, msgspec.Struct):
        return _in_struct
    if hasattr(kind, "__pydantic_fields__") and hasattr(kind, "model_copy"):
        return _in_model
    if dataclasses.is_dataclass(kind) and hasattr(kind, "__post_init__"):
        # `__post_init__` may compute fields from others. Without it, a copy keeps attributes that are not parameters.
        return _in_dataclass
    if hasattr(kind, "__attrs_post_init__"):
        return _in_attrs
    return _in_object


def _in_tuple(record: Any, field: int | str, new: Any) -> Any:
    index = field if isinstance(field, int) else _names_of_tuple(record).index(field)
    fields = (*record[:index], new, *record[index + 1 :])
    kind = type(record)
    if kind is tuple:
        return fields
    # Not by the constructor, which may have other parameters.
    changed = tuple.__new__(kind, fields)
    if kind.__dictoffset__:
        changed.__dict__.update(record.__dict__)
    return changed


def _names_of_tuple(record: Any) -> Sequence[str]:
    names = getattr(record, "_fields", None) or getattr(record, "__fields__", None)
    if names is None:
        raise TypeError("its items have no names: use a position")
    return list(names)


def _in_container(record: Any, field: Any, new: Any) -> Any:
    changed = copy.copy(record)
    changed[field] = new
    return changed


def _in_row(record: Row, field: int | str, new: Any) -> Row:
    changed = type(record).of_kind(record.get_row_kind(), *record)
    names = record._fields
    if names:
        changed.set_field_names(names)
    changed[field] = new
    return changed


def _in_struct(record: Any, field: int | str, new: Any) -> Any:
    changed = msgspec.structs.replace(record, **{str(field): new})
    if hasattr(record, "__post_init__"):
        _check_made_alike(record=record, changed=changed, field=field, new=new, make_again=msgspec.structs.replace)
    return changed


def _in_model(record: Any, field: int | str, new: Any) -> Any:
    return record.model_copy(update={str(field): new})


def _in_dataclass(record: Any, field: int | str, new: Any) -> Any:
    changed = dataclasses.replace(record, **{str(field): new})
    _check_made_alike(record=record, changed=changed, field=field, new=new, make_again=dataclasses.replace)
    return changed


def _in_attrs(record: Any, field: int | str, new: Any) -> Any:
    import attrs

    # The parameter of the constructor may have another name: `total` for `_total`.
    (alias,) = [attribute.alias for attribute in attrs.fields(type(record)) if attribute.name == field]
    changed = attrs.evolve(record, **{alias: new})
    _check_made_alike(record=record, changed=changed, field=field, new=new, make_again=attrs.evolve)
    return changed


def _in_object(record: Any, field: int | str, new: Any) -> Any:
    changed = copy.copy(record)
    try:
        setattr(changed, str(field), new)
    except AttributeError:
        if declared_names(type(record)) is None:
            raise
        # The class is frozen, but the copy is not in use yet.
        object.__setattr__(changed, str(field), new)
    return changed


def _check_made_alike(record: Any, changed: Any, field: int | str, new: Any, make_again: Callable[[Any], Any]) -> None:
    """Raise TypeError if a record created again from its own fields has other fields.

    A constructor may, for example, divide cents by 100: fields would change with each replacement. The constructor is
    called again only if `changed`, the record with the `new` value, differs in other fields as well. It may have
    computed such a field, which is right, or modified it.
    """
    kind: Any = type(record)
    names = _names_of(kind)
    for name in names:
        meant = new if name == field else getattr(record, name, None)
        if (found := getattr(changed, name, None)) is not meant and not _equal(found, meant):
            break
    else:
        return
    again = make_again(record)
    for name in names:
        before, after = getattr(record, name, None), getattr(again, name, None)
        if before is not after and not _equal(before, after):
            raise TypeError(
                f"its constructor modifies its fields: '{name}' changes from {before!r:.80} to {after!r:.80}"
            )


@functools.lru_cache(maxsize=1000)
def _names_of(kind: type) -> tuple[str, ...]:
    return tuple(declared_names(kind) or ())


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:
        # Values that can't be compared, such as arrays, count as equal.
        return True
