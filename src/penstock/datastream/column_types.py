"""Types of streams of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from penstock.api.output_tag import OutputTag
from penstock.common.typeinfo import Types
from penstock.common.types.basic_types import BasicType, BasicTypeInfo, TypeInformation
from penstock.engine.plan.transformations import (
    DeployedTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    SuperstepsTransformation,
    Transformation,
    UnionTransformation,
)
from penstock.engine.runtime.operators.superstep_head import RESULT

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

BatchFormatName = Literal["arrow", "pandas", "numpy", "polars"]


def columns_of(record_type: Any) -> RecordColumns:
    """Return the columns of a type of records. Raises TypeError for a type without columns that compute."""
    from penstock.common.columns.layouts import has_other_layout, usual_layout
    from penstock.common.columns.record_columns import RecordColumns

    if record_type is None:
        raise TypeError(
            "the columns of these records are not known: pass their type to as_columns, a Types.ROW_NAMED(...), a "
            "dataclass, a NamedTuple or a pyarrow.Schema"
        )
    columns = RecordColumns(record_type)
    for at, field in enumerate(columns.schema):
        if has_other_layout(field.type):
            raise TypeError(
                f"the column {field.name!r} has the type {field.type}, a layout that filters and most other functions "
                f"of Arrow do not know: declare {usual_layout(field.type)} in the schema, as with schema.set({at}, "
                f"pyarrow.field({field.name!r}, ...)). Sources convert the values"
            )
    row_type = columns.row_type
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


class UnionOfStreams(UnionTransformation):
    """A union that knows its columns. Raises TypeError for streams of columns with other names or types.

    It is found once, from the inputs: a program may unite thousands of streams one by one.
    """

    columns: RecordColumns | None
    """The columns of all inputs; None if one of them has records, or their schemas differ, such as in their order."""
    columns_of_some: RecordColumns | None
    """The columns of one of the inputs that have columns."""

    def __init__(self, id: int, inputs: Sequence[Transformation]) -> None:
        super().__init__(id, inputs)
        found = [given_columns(stream) for stream in inputs]
        first, schemas = found[0], [None if columns is None else columns.schema for columns in found]
        self.columns = first if all(schema == schemas[0] for schema in schemas) else None
        known = [columns for stream in inputs if (columns := _columns_of_some(stream)) is not None]
        for other in known[1:]:
            _check_same(known[0], other)
        self.columns_of_some = known[0] if known else None


def given_columns(stream: Transformation) -> RecordColumns | None:
    """Return the columns of a stream; None if it has records, or is a union of several schemas."""
    stream = _partitioned(stream)
    if isinstance(stream, UnionOfStreams):
        return stream.columns
    tag = stream.tag if isinstance(stream, SideOutputTransformation) else None
    operator = stream.inputs[0] if tag is not None else stream
    if isinstance(operator, SuperstepsTransformation) and tag in (None, RESULT):
        # Of a workset; the plan decides whether it travels as columns, too.
        return given_columns(operator.inputs[0])
    return operator.operator.given_columns(tag) if isinstance(operator, DeployedTransformation) else None


def columns_to_read(stream: Transformation) -> RecordColumns:
    """Return the columns of a stream, or those of its declared type. Raises TypeError if neither is known."""
    given, union = given_columns(stream), _partitioned(stream)
    if given is None and stream.output_type is None and isinstance(union, UnionOfStreams) and union.columns_of_some:
        texts = dict.fromkeys(map(_described, map(given_columns, union.inputs)))
        raise TypeError(
            f"the streams of a union have {', and others '.join(texts)}: pass the type of all of them to as_columns"
        )
    return given or columns_of(stream.output_type)


def _columns_of_some(stream: Transformation) -> RecordColumns | None:
    stream = _partitioned(stream)
    return stream.columns_of_some if isinstance(stream, UnionOfStreams) else given_columns(stream)


def _partitioned(stream: Transformation) -> Transformation:
    """Return the stream before its partitioning."""
    while isinstance(stream, PartitionTransformation):
        stream = stream.inputs[0]
    return stream


def check_rejected(tag: OutputTag[Any], columns: RecordColumns) -> None:
    """Raise TypeError if the declared type of a side output is not that of the columns that go there."""
    if tag.type_info != Types.PICKLED_BYTE_ARRAY() and columns_of(tag.type_info).schema != columns.schema:
        raise TypeError(
            f"the rows that '{tag.tag_id}' gets have the columns {_described(columns)}, but its type has "
            f"{_described(columns_of(tag.type_info))}: declare the same, or no type"
        )


def _check_same(first: RecordColumns, other: RecordColumns) -> None:
    types = [dict(zip(columns.names, columns.schema.types, strict=True)) for columns in (first, other)]
    if types[0] != types[1]:
        raise TypeError(f"union needs streams with the same columns, got {_described(first)} and {_described(other)}")


def _described(columns: RecordColumns | None) -> str:
    if columns is None:
        return "columns that are not known"
    null = {True: "", False: " not null"}
    return ", ".join(f"{one.name}: {one.type}{null[one.nullable]}" for one in columns.schema)
