"""Sink: constraints, then the connector, or the program that reads the rows of a query."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow

from penstock.engine.jobmaster.results.result_sinks import CommittedResults
from penstock.engine.plan.transformations import DeployedTransformation, OperatorTransformation, Transformation
from penstock.engine.runtime.columns.sink import ColumnSinkOperator
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.sink import CollectOperator, SinkOperator
from penstock.table.connectors.table_connector import SinkRequest, TableSink, connector_of
from penstock.table.execution.nodes.scan import with_secrets
from penstock.table.execution.registry import translates
from penstock.table.execution.translation import ZONE, Translation, setting
from penstock.table.logical_types import LogicalType
from penstock.table.operators.constraints import NotNullOperator
from penstock.table.operators.renamed import RenameOperator
from penstock.table.operators.scan import KindColumnOperator
from penstock.table.operators.table_columns import TableColumns, table_columns
from penstock.table.planner.nodes.tables import ResolvedTable, Sink, Sink1, TargetColumnWriting

_NESTED = "table.exec.sink.nested-constraint-enforcer"
_NOT_NULL, _LENGTH = "table.exec.sink.not-null-enforcer", "table.exec.sink.type-length-enforcer"


@translates(Sink, Sink1)
def sink(translation: Translation, node: Sink, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a Sink, and add it to the program."""
    spec = node.dynamic_table_sink
    for ability in spec.abilities:
        if not isinstance(ability, TargetColumnWriting):
            raise translation.unsupported(f"{type(ability).__name__} is not supported by the connector")
    (stream,) = inputs
    received = translation.input(node)
    if node.require_upsert_materialize:
        raise translation.unsupported(
            "rows of one primary key come from several subtasks here, which needs a SinkUpsertMaterializer: set "
            "table.exec.sink.upsert-materialize to NONE, or write by a key that the query has"
        )
    if spec.table.identifier == translation.returned:
        translation.result = stream
        return stream
    collector = translation.collectors.get(spec.table.identifier)
    if collector is not None:
        found, columns = TableSink(results=collector, parallelism=1), received
    else:
        table = with_secrets(spec.table, translation)
        assert table.resolved_table is not None
        row_type = persisted_row(table.resolved_table)
        columns = table_columns(row_type)
        stream = _constrained(translation, node, stream=stream, received=received, row_type=row_type)
        if received.schema != columns.schema:
            stream = translation.operator(node, RenameOperator(received, columns), [stream], role="columns")
        request = SinkRequest(
            table,
            columns,
            row_type=row_type,
            kinds=node.input_changelog_mode,
            zone=translation.options.get(ZONE, "UTC"),
        )
        found = connector_of(table).sink(request)
    return _ended(translation, node, stream=stream, found=found, columns=columns)


def persisted_row(table: ResolvedTable) -> LogicalType:
    """Return the columns that are written into a table: physical ones, and metadata that is not virtual."""
    written = [
        column
        for column in table.schema.columns
        if column.data_type is not None
        and (column.kind == "PHYSICAL" or (column.kind == "METADATA" and not column.is_virtual))
    ]
    types = tuple(column.data_type.logical for column in written if column.data_type is not None)
    return LogicalType("ROW", nullable=False, names=tuple(column.name for column in written), children=types)


def _constrained(
    translation: Translation, node: Sink, stream: Transformation, received: TableColumns, row_type: LogicalType
) -> Transformation:
    if setting(node, _LENGTH, "IGNORE") != "IGNORE":
        raise translation.unsupported(f"{_LENGTH} is not supported: set it to IGNORE")
    if translation.options.get(_NESTED, "IGNORE").upper() != "IGNORE":
        raise translation.unsupported(f"{_NESTED} is not supported: set it to IGNORE")
    required = [name for name, one in zip(received.names, row_type.children, strict=False) if not one.nullable]
    if not required:
        return stream
    table = node.dynamic_table_sink.table.identifier
    drops = setting(node, _NOT_NULL, "ERROR").upper() == "DROP"
    operator = NotNullOperator(received, required, drops=drops, table=table)
    return translation.operator(node, operator, [stream], role="constraints")


def _ended(
    translation: Translation, node: Sink, stream: Transformation, found: TableSink, columns: TableColumns
) -> OperatorTransformation:
    if found.takes_kinds:
        kinds = KindColumnOperator("Kinds", columns)
        stream = translation.operator(node, kinds, [stream], role="kinds")
        columns = TableColumns(kinds.columns_given.schema if kinds.columns_given else pyarrow.schema([]))
    name = node.dynamic_table_sink.table.identifier.replace("`", "")
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
