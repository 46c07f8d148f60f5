"""Sink: constraints, then the connector, or the program that reads the rows of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow

from penstock.engine.jobmaster.results.result_sinks import CommittedResults
from penstock.engine.plan.transformations import DeployedTransformation, OperatorTransformation, Transformation
from penstock.engine.runtime.columns.sink import ColumnSinkOperator
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.sink import CollectOperator, SinkOperator
from penstock.table.connectors.table_connector import SinkRequest, TableConnector, TableSink, connector_of
from penstock.table.execution.nodes.scan import with_secrets
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import Translation, setting
from penstock.table.logical_types import LogicalType
from penstock.table.operators.rows.rename import RenameOperator
from penstock.table.operators.sinks.constraints import Constraint, ConstraintOperator
from penstock.table.operators.sinks.materialize import DEDUPLICATE, FAIL, NOTHING, MaterializeOperator
from penstock.table.operators.sinks.nested_constraints import (
    IGNORE,
    ROWS_AND_COLLECTIONS,
    TRIM_PAD,
    NestedConstraint,
    constrained,
    has_limited_elements,
    is_limited,
)
from penstock.table.operators.sinks.rowtime import RowtimeOperator
from penstock.table.operators.sources.scan import KindColumnOperator
from penstock.table.operators.table_columns import TableColumns, table_columns
from penstock.table.planner.data_types import ROWTIME
from penstock.table.planner.errors import SqlError
from penstock.table.planner.nodes.tables import (
    Bucketing,
    Overwrite,
    Partitioning,
    ResolvedTable,
    Sink,
    Sink1,
    TargetColumnWriting,
    WritingMetadata,
)
from penstock.table.query_options import LENGTH_ENFORCER, NESTED_ENFORCER, NOT_NULL_ENFORCER, ROWTIME_INSERTER, value_of


@translates(Sink, Sink1)
def sink(translation: Translation, node: Sink, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Sink, and add it to the program."""
    spec = node.dynamic_table_sink
    (stream,) = inputs
    received = translation.input(node)
    if spec.table.identifier == translation.returned:
        translation.result = stream
        return stream
    collector = translation.collectors.get(spec.table.identifier)
    if collector is not None:
        found, columns = TableSink(results=collector, parallelism=1), received
    else:
        table = with_secrets(spec.table, translation)
        connector = connector_of(table)
        row_type, written = _written(translation, connector, node, table.resolved)
        columns = table_columns(row_type)
        # First of all, so that errors name the columns of the table.
        if received.schema != columns.schema:
            stream = translation.operator(node, RenameOperator(received, columns), [stream], role="columns")
        stream = _constrained(translation, node, stream=stream, columns=columns, row_type=row_type)
        if node.require_upsert_materialize:
            stream = _materialized(translation, node, stream=stream, columns=columns, row_type=row_type)
        stream = _timed(translation, node, stream, columns)
        request = SinkRequest(
            table,
            columns,
            row_type=row_type,
            kinds=node.input_changelog_mode,
            zone=translation.zone,
            metadata=written.metadata,
            partition=written.partition,
            overwrites=written.overwrites,
        )
        found = connector.sink(request)
    return _ended(translation, node, stream=stream, found=found, columns=columns)


class _Written(NamedTuple):
    """The abilities that the planner has left to the connector."""

    metadata: tuple[str, ...]
    partition: Mapping[str, str]
    overwrites: bool


def _written(
    translation: Translation, connector: TableConnector, node: Sink, table: ResolvedTable
) -> tuple[LogicalType, _Written]:
    """Return the columns that are written into a table, metadata behind all others."""
    row_type = table.schema.physical_row
    metadata: tuple[str, ...] = ()
    partition: Mapping[str, str] = {}
    overwrites = False
    for ability in node.dynamic_table_sink.abilities:
        name = type(ability).__name__
        if not isinstance(ability, TargetColumnWriting | Bucketing) and name not in connector.sink_abilities:
            raise translation.unsupported(f"{name} is not supported by the connector")
        if isinstance(ability, WritingMetadata):
            metadata, row_type = ability.metadata_keys, ability.consumed_type.logical
        elif isinstance(ability, Partitioning):
            partition = ability.partition
        elif isinstance(ability, Overwrite):
            overwrites = ability.overwrite
    return row_type, _Written(metadata, partition, overwrites)


def _constrained(
    translation: Translation, node: Sink, stream: Transformation, columns: TableColumns, row_type: LogicalType
) -> Transformation:
    lengths, where = setting(node, LENGTH_ENFORCER), value_of(translation.options, NESTED_ENFORCER)
    found = []
    for name, one in zip(columns.names, row_type.children, strict=True):
        nested = None
        if where != IGNORE and constrained(one, where):
            if lengths == TRIM_PAD and where == ROWS_AND_COLLECTIONS and has_limited_elements(one):
                raise SqlError(
                    "Trimming and/or padding is not supported if constraint checking is enabled on types nested in "
                    f"collections. Set {NESTED_ENFORCER.key} to ROWS, or {LENGTH_ENFORCER.key} to ERROR"
                )
            nested = NestedConstraint(name, one, lengths=lengths, where=where)
        if nested is not None or not one.nullable or (lengths != IGNORE and is_limited(one)):
            found.append(Constraint(name, one, nested))
    if not found:
        return stream
    operator = ConstraintOperator(
        columns,
        found,
        drops=setting(node, NOT_NULL_ENFORCER) == "DROP",
        lengths=lengths,
        table=node.dynamic_table_sink.table.identifier,
    )
    return translation.operator(node, operator, [stream], role="constraints")


def _materialized(
    translation: Translation, node: Sink, stream: Transformation, columns: TableColumns, row_type: LogicalType
) -> Transformation:
    """Return the rows of each primary key as they replace each other, whatever order they come in."""
    table = node.dynamic_table_sink.table.resolved_table
    key = None if table is None else table.schema.primary_key
    if key is None:
        raise translation.unsupported("the table has no primary key by which its rows could be written")
    places = [row_type.names.index(name) for name in key.columns]
    conflict = (node.conflict_strategy or {}).get("behavior", DEDUPLICATE)
    if conflict not in (DEDUPLICATE, FAIL, NOTHING):
        raise translation.unsupported(f"ON CONFLICT DO {conflict} is not supported")
    operator = MaterializeOperator(
        [columns.names[place] for place in places],
        node.input_upsert_key,
        conflict=conflict,
        table=node.dynamic_table_sink.table.identifier,
        columns=columns,
        ttl_ms=translation.ttl_ms(node),
    )
    return translation.operator(
        node, operator, [translation.hashed(stream, columns, places)], role="upsert-materializer"
    )


def _timed(translation: Translation, node: Sink, stream: Transformation, columns: TableColumns) -> Transformation:
    """Return the rows with their event times, if they have one."""
    (origin,) = translation.plan.inputs_of(node)
    times = origin.output_type.field_time_attributes
    places = [place for place, one in enumerate(times) if one == ROWTIME and place < len(columns.names)]
    if not places or setting(node, ROWTIME_INSERTER) == "DISABLED":
        return stream
    if len(places) > 1:
        names = ", ".join(columns.names[place] for place in places)
        raise translation.unsupported(
            f"the query has more than one rowtime attribute ({names}). Cast all but the one that is to be the time of "
            "the rows to TIMESTAMP(3)"
        )
    operator = RowtimeOperator(columns.names[places[0]], columns)
    return translation.operator(node, operator, [stream], role="rowtime")


def _ended(
    translation: Translation, node: Sink, stream: Transformation, found: TableSink, columns: TableColumns
) -> OperatorTransformation:
    if found.takes_kinds:
        kinds = KindColumnOperator("Kinds", columns)
        stream = translation.operator(node, kinds, [stream], role="kinds")
        columns = TableColumns(kinds.columns_given.schema if kinds.columns_given else pyarrow.schema([]))
    name = node.dynamic_table_sink.table.name
    id = translation.program.next_id()
    operator: Operator
    if found.sink is None:
        operator = CollectOperator(name, id)
    elif found.sink.takes_columns(columns):
        operator = ColumnSinkOperator(name, found.sink, id)
        operator.columns_received = columns
    else:
        operator = SinkOperator(name, found.sink, id)
    end = OperatorTransformation(id=id, name=name, inputs=[stream], operator=operator, is_sink=True)
    translation.name(end, node)
    end.parallelism = found.parallelism
    if found.parallelism is None and isinstance(stream, DeployedTransformation):
        end.parallelism = stream.parallelism
    results = found.results
    if found.sink is not None and (committer := found.sink.create_committer()) is not None:
        results = CommittedResults(committer)
    translation.program.add_end(end, results)
    return end
