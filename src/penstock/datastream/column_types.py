"""Types of streams of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from penstock.common.types.composite_types import RowTypeInfo
from penstock.common.types.type_hints import from_hint
from penstock.engine.plan.transformations import DeployedTransformation, PartitionTransformation, Transformation

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

BatchFormatName = Literal["arrow", "pandas", "numpy", "polars"]


def columns_of(record_type: Any) -> RecordColumns:
    """Return the columns of a type of records. Raises TypeError for a type without columns."""
    from penstock.common.columns.record_columns import RecordColumns

    if record_type is None:
        raise TypeError(
            "the columns of these records are not known: pass their type to as_columns, a Types.ROW_NAMED(...), a "
            "dataclass, a NamedTuple or a pyarrow.Schema"
        )
    return RecordColumns(record_type)


def given_columns(stream: Transformation) -> RecordColumns | None:
    """Return the columns of a stream; None if it has records."""
    while isinstance(stream, PartitionTransformation):
        stream = stream.inputs[0]
    return stream.operator.given_columns(None) if isinstance(stream, DeployedTransformation) else None


def row_type_of(columns: RecordColumns) -> RowTypeInfo | None:
    """Return the type of the records of columns; None for records of a pyarrow.Schema, which are dicts."""
    declared = columns.record_type
    found = from_hint(declared) if isinstance(declared, type) else declared
    return found if isinstance(found, RowTypeInfo) else None
