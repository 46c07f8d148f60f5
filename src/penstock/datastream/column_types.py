"""Types of streams of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from penstock.common.types.basic_types import BasicType, BasicTypeInfo, TypeInformation
from penstock.common.types.composite_types import RowTypeInfo
from penstock.common.types.type_hints import from_hint
from penstock.engine.plan.transformations import (
    DeployedTransformation,
    PartitionTransformation,
    Transformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

BatchFormatName = Literal["arrow", "pandas", "numpy", "polars"]


def columns_of(record_type: Any) -> RecordColumns:
    """Return the columns of a type of records. Raises TypeError for a type without columns that compute."""
    from penstock.common.columns.record_columns import RecordColumns

    if record_type is None:
        raise TypeError(
            "the columns of these records are not known: pass their type to as_columns, a Types.ROW_NAMED(...), a "
            "dataclass, a NamedTuple or a pyarrow.Schema"
        )
    columns = RecordColumns(record_type)
    row_type = row_type_of(columns)
    for name, kind in () if row_type is None else zip(columns.names, row_type.get_field_types(), strict=True):
        for part in _parts(kind):
            if instead := _INSTEAD.get(part):
                raise TypeError(
                    f"field {name!r} has the type {part}, whose numbers have no limit: their column is text, with "
                    f"which functions can't compute. Declare {instead} in a pyarrow.Schema"
                )
    return columns


_INSTEAD: dict[TypeInformation, str] = {
    BasicTypeInfo(BasicType.BIG_INT): "Types.LONG(), or pyarrow.decimal128(38, 0)",
    BasicTypeInfo(BasicType.BIG_DEC): "pyarrow.decimal128(precision, scale)",
}


def _parts(kind: Any) -> Iterator[TypeInformation]:
    """Yield a type and the types inside it."""
    if isinstance(kind, TypeInformation):
        yield kind
    for part in kind._parts() if isinstance(kind, TypeInformation) else kind:
        if isinstance(part, (TypeInformation, tuple)):
            yield from _parts(part)


def given_columns(stream: Transformation) -> RecordColumns | None:
    """Return the columns of a stream; None if it has records, or a union of columns of several schemas."""
    while isinstance(stream, PartitionTransformation):
        stream = stream.inputs[0]
    if isinstance(stream, UnionTransformation):
        first, *others = map(given_columns, stream.inputs)
        is_one = first is not None and all(other is not None and other.schema == first.schema for other in others)
        return first if is_one else None
    return stream.operator.given_columns(None) if isinstance(stream, DeployedTransformation) else None


def check_union(streams: Sequence[Transformation]) -> None:
    """Raise TypeError for a union of streams of columns with other names or types; their order may differ."""
    first: dict[str, Any] = {}
    for columns in _columns_of_inputs(streams):
        types = dict(zip(columns.names, columns.schema.types, strict=True))
        first = first or types
        if types != first:
            one, other = (", ".join(f"{name}: {kind}" for name, kind in each.items()) for each in (first, types))
            raise TypeError(f"union needs streams with the same columns, got {one} and {other}")


def _columns_of_inputs(streams: Sequence[Transformation]) -> Iterator[RecordColumns]:
    """Yield the columns of each of the streams that has columns, and of the streams of unions among them."""
    for stream in streams:
        while isinstance(stream, PartitionTransformation):
            stream = stream.inputs[0]
        if isinstance(stream, UnionTransformation):
            yield from _columns_of_inputs(stream.inputs)
        elif (columns := given_columns(stream)) is not None:
            yield columns


def row_type_of(columns: RecordColumns) -> RowTypeInfo | None:
    """Return the type of the records of columns; None for records of a pyarrow.Schema, which are dicts."""
    declared = columns.record_type
    found = from_hint(declared) if isinstance(declared, type) else declared
    return found if isinstance(found, RowTypeInfo) else None
