"""The kind and type of a state in a snapshot, which prevent that it is restored as another state.

A state must have the kind and type with which it was written. A dataclass may have gained fields with defaults. Source:
Flink docs, "State Schema Evolution".
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from penstock.api.state.descriptors import StateDescriptor
from penstock.common.errors import CheckpointError
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types.composite_types import ListTypeInfo, MapTypeInfo, RowTypeInfo, TupleTypeInfo

TIMED = "with a time to live"


class TableSchema(NamedTuple):
    """`kind`: of the descriptor: value, list, map, reducing, aggregating. `type`: of the content of a key."""

    kind: str
    type: TypeInformation

    @property
    def collection(self) -> str:
        """The kind of collection of its values: "map" or "list", or empty for single values."""
        return collection_in(self.kind)

    def __str__(self) -> str:
        return f"{self.kind} of {self.type!r}"


class RestoredSchema(TableSchema):
    """The schema of a state in an existing snapshot, which stores the text of the schema and not the type itself."""

    def __str__(self) -> str:
        return self.kind


def restored_schema(text: str) -> TableSchema | None:
    """Return the schema of a state in a snapshot from its text; None for an empty text."""
    return RestoredSchema(text, Types.PICKLED_BYTE_ARRAY()) if text else None


def collection_in(schema: str) -> str:
    """Return `TableSchema.collection`, given the text of a schema or its kind."""
    kind = schema.partition(" ")[0]
    return kind if kind in ("map", "list") else ""


def schema_of(descriptor: StateDescriptor) -> TableSchema:
    """Return the schema of a state."""
    kind, type_ = type(descriptor).__name__.removesuffix("StateDescriptor").lower(), descriptor.type_info
    if descriptor.ttl_config is None:
        return TableSchema(kind, type_)
    return TableSchema(f"{kind} {TIMED}", _timed(type_))


def element_schema(schema: TableSchema) -> TableSchema:
    """Return the schema of a single element of a list, or value of a map."""
    if isinstance(schema.type, ListTypeInfo):
        return TableSchema(schema.kind, schema.type.elem_type)
    if isinstance(schema.type, MapTypeInfo):
        return TableSchema(schema.kind, schema.type._value_type_info)
    return schema


def _timed(type_: TypeInformation) -> TypeInformation:
    """Return the stored type of a state whose values carry the time of their last use."""
    if isinstance(type_, ListTypeInfo):
        return ListTypeInfo(TupleTypeInfo([Types.LONG(), type_.elem_type]))
    if isinstance(type_, MapTypeInfo):
        return MapTypeInfo(type_._key_type_info, TupleTypeInfo([Types.LONG(), type_._value_type_info]))
    return TupleTypeInfo([Types.LONG(), type_])


def untimed(schema: str, value: Any) -> Any:
    """Remove the times of last use from a stored value, given the text of its schema."""
    kind, _, rest = schema.partition(" ")
    if not rest.startswith(TIMED):
        return value
    if kind == "list":
        return [element for _, element in value]
    if kind == "map":
        return {key: one for key, (_, one) in value.items()}
    return value[1]


def check_schema(name: str, found: str, declared: TableSchema) -> None:
    """Raise CheckpointError if a state with the schema `found` cannot be read as `declared`."""
    if not found or found == str(declared):
        return
    former = TableSchema(declared.kind, _former_type(declared.type, found.removeprefix(f"{declared.kind} of ")))
    if found != str(former):
        raise CheckpointError(
            f"the state '{name}' was written as {found}, the program declares it as {declared}. Declare it as it was "
            "written, or give the new state another name"
        )


def _former_type(now: TypeInformation, found: str) -> TypeInformation:
    """Return the type without fields of dataclasses that have defaults and are missing from `found`, its text."""
    parts = _parts_of(found)
    if isinstance(now, ListTypeInfo) and len(parts) == 1:
        return ListTypeInfo(_former_type(now.elem_type, parts[0]))
    if isinstance(now, MapTypeInfo) and len(parts) == 2:
        return MapTypeInfo(_former_type(now._key_type_info, parts[0]), _former_type(now._value_type_info, parts[1]))
    if isinstance(now, TupleTypeInfo) and len(parts) == len(now.get_field_types()):
        return TupleTypeInfo([_former_type(*each) for each in zip(now.get_field_types(), parts, strict=True)])
    if not isinstance(now, RowTypeInfo) or not dataclasses.is_dataclass(now.record_class):
        return now
    texts = {name: text for name, _, text in (part.partition(": ") for part in parts)}
    new = {field.name for field in dataclasses.fields(now.record_class) if _has_default(field)} - texts.keys()
    fields = [
        (name, _former_type(type_, texts.get(name, "")))
        for name, type_ in zip(now.get_field_names(), now.get_field_types(), strict=True)
        if name not in new
    ]
    return RowTypeInfo([type_ for _, type_ in fields], [name for name, _ in fields], now.record_class)


def _parts_of(text: str) -> list[str]:
    """Split the text of a composite type: `RowTypeInfo(a: Long, b: Long)` has the parts `a: Long` and `b: Long`."""
    begin = min((at for at in map(text.find, "(<") if at >= 0), default=len(text))
    parts, depth, start = [], 0, begin + 1
    for at in range(start, len(text) - 1):
        character = text[at]
        if character in "(<":
            depth += 1
        elif character in ")>":
            depth -= 1
        elif depth == 0 and text.startswith(", ", at):
            parts.append(text[start:at])
            start = at + 2
    return [*parts, text[start:-1]] if start < len(text) else []


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
