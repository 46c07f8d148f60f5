"""Streams as tables, and tables as streams: what `StreamTableEnvironment` does with a program's DataStreams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow

from penstock.common.types import Row, RowKind
from penstock.datastream.data_stream import DataStream
from penstock.engine.plan.transformations import DeployedTransformation, OperatorTransformation, Transformation
from penstock.table.composing.relation import missing_column, unaliased
from penstock.table.composing.sql_text import quoted
from penstock.table.composing.terms import ColumnTerm, PropertyTerm, Term
from penstock.table.connectors.data_streams import NAME, StreamData
from penstock.table.connectors.table_connector import METADATA
from penstock.table.declared_types import logical_type
from penstock.table.execution.jobs import result_row
from penstock.table.expression import Expression, column
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import LogicalType
from penstock.table.operators.sources.stream_rows import ROWTIME, StreamToTableOperator, TableToStreamOperator
from penstock.table.operators.table_columns import KIND, TableColumns, table_columns
from penstock.table.planner.errors import SqlError
from penstock.table.schema import Schema
from penstock.table.stream_types import type_information

if TYPE_CHECKING:
    from penstock.table.changelog_mode import ChangelogMode
    from penstock.table.stream_table_environment import StreamTableEnvironment
    from penstock.table.table import Table

_TIME = f"{METADATA}{ROWTIME}"


def table_of_stream(
    environment: StreamTableEnvironment, stream: Any, fields_or_schema: Sequence[Any], mode: ChangelogMode
) -> Table:
    """Return a table of a stream. Raises TypeError or ValueError."""
    if not isinstance(stream, DataStream):
        raise TypeError(f"expected a DataStream, got {stream!r}")
    if stream.environment is not environment.execution_environment:
        raise ValueError("the stream belongs to another StreamExecutionEnvironment than the table environment")
    schema, fields = _given(fields_or_schema)
    row_type, is_atomic = _row_type(stream, schema)
    if fields:
        schema = _schema_of_fields(fields, row_type)
    else:
        _check_declared(row_type, schema)
    # As in Flink, computed columns may read fields that the table does not show.
    full = row_type if fields else _with_declared_types(row_type, schema)
    if fields:
        # Fields that are renamed have their new names from the start.
        names = dict(zip(_physical_fields(fields, row_type), _table_names(fields), strict=True))
        full = LogicalType("ROW", names=tuple(names.get(one, one) for one in full.names), children=full.children)
    fields_given = [pyarrow.field(name, arrow_type(kind)) for name, kind in zip(full.names, full.children, strict=True)]
    takes_time = any(" METADATA" in text for _, kind, text in schema.columns if kind is None)
    if takes_time:
        fields_given.append(pyarrow.field(_TIME, pyarrow.timestamp("ms", "UTC")))
    if mode.kinds != ("I",):
        fields_given.append(pyarrow.field(KIND, pyarrow.uint8()))
    columns = TableColumns(pyarrow.schema(fields_given))
    operator = StreamToTableOperator(
        full,
        is_atomic=is_atomic,
        given=columns,
        time=_TIME if takes_time else None,
        zone=environment.get_config().get_local_timezone(),
    )
    data = StreamData(_behind(environment, stream._transformation, operator), columns)
    environment._keep(data)
    complete = schema.with_physical(list(zip(full.names, full.children, strict=True)))
    options = f"'connector' = '{NAME}', 'id' = '{data.id}', 'changelog-mode' = '{','.join(mode.kinds)}'"
    known = [name for name, _, _ in complete.columns]
    table = environment._table_of_ddl(f"({complete.sql()}) WITH ({options})", known, "from_data_stream")
    shown = [name for name, _, _ in schema.columns] if schema.physical else known
    return table if shown == known else table.select(*map(column, shown))


def stream_of_table(
    environment: StreamTableEnvironment,
    table: Table,
    *,
    takes_changes: bool,
    type_info: Any = None,
    schema: Schema | None = None,
    mode: ChangelogMode | None = None,
) -> DataStream[Row]:
    """Return the rows of a table as a stream. Raises SqlError for changes, unless `takes_changes`."""
    if mode is not None and "UB" not in mode.kinds and "UA" in mode.kinds:
        raise ValueError("a stream of upserts is not supported: take ChangelogMode.all()")
    relation = table.relation
    sql = relation.sql()
    target = None if schema is None else schema.physical
    if target:
        names = ", ".join(f"CAST({quoted(name)} AS {kind.summary}) AS {quoted(name)}" for name, kind in target)
        sql = f"SELECT {names} FROM {relation.source()}"
    plan, stream = environment._attached(sql, relation)
    sink = plan.sinks[0]
    kinds = set(sink.input_changelog_mode)
    allowed = {"INSERT"} if not takes_changes or (mode is not None and mode.kinds == ("I",)) else kinds
    if not kinds <= allowed:
        raise SqlError(
            f"the table gives {', '.join(sorted(kinds - allowed))}: a stream of insertions can't have them. Use "
            "to_changelog_stream"
        )
    (node,) = plan.inputs_of(sink)
    row_type = result_row(plan)
    times = [place for place, one in enumerate(node.output_type.field_time_attributes) if one == "ROWTIME"]
    columns = row_type.names if type_info is None else _names_of(type_info, row_type)
    operator = TableToStreamOperator(
        table_columns(node.output_type.logical), row_type.children, columns, times[0] if len(times) == 1 else None
    )
    made = _behind(environment, stream, operator)
    made.output_type = type_info or type_information(LogicalType("ROW", names=columns, children=row_type.children))
    # The values are those of the columns already.
    return DataStream(environment.execution_environment, made)


def with_flag(row: Row) -> tuple[bool, Row]:
    """Return whether a row comes, and the row."""
    return row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER), row


def _behind(environment: StreamTableEnvironment, stream: Transformation, operator: Any) -> OperatorTransformation:
    made = OperatorTransformation(
        id=environment.execution_environment.next_id(), name=operator.name, inputs=[stream], operator=operator
    )
    if isinstance(stream, DeployedTransformation):
        # As in Flink, rows stay in the order of the stream.
        made.parallelism = stream.parallelism
    return made


def _given(fields_or_schema: Sequence[Any]) -> tuple[Schema, list[Term]]:
    if len(fields_or_schema) == 1 and isinstance(fields_or_schema[0], Schema):
        return fields_or_schema[0], []
    for field in fields_or_schema:
        if not isinstance(field, Expression):
            raise TypeError(f"expected a Schema, or expressions such as col('f0').alias('id'), got {field!r}")
    return Schema.new_builder().build(), [field.term for field in fields_or_schema]


def _row_type(stream: DataStream[Any], schema: Schema) -> tuple[LogicalType, bool]:
    """Return the fields of a stream's records, and whether a record is the only one."""
    declared = stream._transformation.output_type
    if declared is None:
        if schema.physical:
            names, kinds = zip(*schema.physical, strict=True)
            return LogicalType("ROW", names=tuple(names), children=tuple(kinds)), False
        raise TypeError(
            "the type of the stream is not known: declare it, as in map(..., output_type=Types.ROW_NAMED(...)), or "
            "pass a Schema with columns"
        )
    found = logical_type(declared)
    if found.root == "ROW":
        return found, False
    return LogicalType("ROW", names=("f0",), children=(found,)), True


def _check_declared(row_type: LogicalType, schema: Schema) -> None:
    for name, _ in schema.physical:
        if name not in row_type.names:
            raise missing_column(name, row_type.names)


def _with_declared_types(row_type: LogicalType, schema: Schema) -> LogicalType:
    """Return the fields of a record, with the types that the schema declares."""
    declared = dict(schema.physical)
    kinds = [declared.get(name, kind) for name, kind in zip(row_type.names, row_type.children, strict=True)]
    return LogicalType("ROW", names=row_type.names, children=tuple(kinds))


def _attribute(term: Term) -> tuple[Term, str]:
    """Return the column that a term names, and `_ROWTIME`, `_PROCTIME` or nothing."""
    inner, _ = unaliased(term)
    if isinstance(inner, PropertyTerm) and inner.suffix in ("_ROWTIME", "_PROCTIME"):
        return inner.window, inner.suffix
    return inner, ""


def _physical_fields(fields: Sequence[Term], row_type: LogicalType) -> list[str]:
    """Return the fields of records that expressions select: by their names, or by their places."""
    named = []
    for term in fields:
        column, attribute = _attribute(term)
        if not isinstance(column, ColumnTerm):
            raise ValueError(f"expected a field such as col('f0'), got {Expression(term)!r}")
        if not attribute:
            named.append(column.column)
    if any(name in row_type.names for name in named):
        for name in named:
            if name not in row_type.names:
                raise missing_column(name, row_type.names)
        return named
    if len(named) > len(row_type.names):
        raise ValueError(f"the stream has {len(row_type.names)} fields, got {len(named)} names: {', '.join(named)}")
    return list(row_type.names[: len(named)])


def _table_names(fields: Sequence[Term]) -> list[str]:
    return [str(term.name) for term in fields if not _attribute(term)[1]]


def _schema_of_fields(fields: Sequence[Term], row_type: LogicalType) -> Schema:
    """Return the columns that expressions select, by the names that they have in the table."""
    kinds = dict(zip(row_type.names, row_type.children, strict=True))
    selected = iter(_physical_fields(fields, row_type))
    columns: list[tuple[str, LogicalType | None, str]] = []
    watermark = None
    for term in fields:
        inner, attribute = _attribute(term)
        name = str(term.name or inner.name)
        if attribute == "_PROCTIME":
            columns.append((name, None, "AS PROCTIME()"))
        elif attribute == "_ROWTIME":
            columns.append((name, None, "TIMESTAMP_LTZ(3) METADATA FROM 'rowtime'"))
            watermark = f"WATERMARK FOR {quoted(name)} AS SOURCE_WATERMARK()"
        else:
            kind = kinds[next(selected)]
            columns.append((name, kind, str(kind)))
    return Schema(columns, watermark, ())


def _names_of(type_info: Any, row_type: LogicalType) -> tuple[str, ...]:
    declared = logical_type(type_info)
    if declared.root != "ROW" or len(declared.names) != len(row_type.names):
        raise TypeError(f"the table has {len(row_type.names)} columns, got the type {type_info!r}")
    return declared.names
