"""TableSourceScan: the connector, and what the planner has pushed into it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.engine.plan.transformations import Transformation
from penstock.table.connectors.table_connector import METADATA, ScanRequest, connector_of, physical_columns
from penstock.table.execution.column_source import ColumnSourceTransformation
from penstock.table.execution.pruning import fields_read, pruned
from penstock.table.execution.pushed_down import PushedDown, pushed_down
from penstock.table.execution.registry import translates
from penstock.table.execution.split_watermarks import idle_timeout_ms, is_on_event, split_watermarks
from penstock.table.execution.translation import Translation
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.operators.rows.calc import CalcOperator
from penstock.table.operators.sources.scan import Path, ScanOperator
from penstock.table.operators.sources.watermarks import WatermarkOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.tables import ContextResolvedTable, TableSourceScan, TableSourceScan1
from penstock.table.planner.rex_nodes import RexInputRef


@translates(TableSourceScan, TableSourceScan1)
def scan(translation: Translation, node: TableSourceScan, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a scan: the source, a projection, and perhaps watermarks."""
    table = with_secrets(node.scan_table_source.table, translation)
    pushed = pushed_down(translation, node.scan_table_source.abilities, table)
    paths, watermark = pushed.paths, pushed.watermark
    used = fields_read(translation.plan, node)
    schema, whole = _schemas(table, [*paths, *pushed.condition_paths], used)
    request = ScanRequest(
        table,
        schema,
        whole=whole,
        metadata={key: kind for key, (_, kind) in pushed.metadata.items()},
        zone=translation.zone,
    )
    found = connector_of(table).scan(request)
    if pushed.of_source and not found.has_watermarks:
        raise translation.unsupported(
            "SOURCE_WATERMARK() asks for watermarks of the connector, which does not give any: declare an expression"
        )
    name = table.name
    by_split = watermark is not None and found.watermarks_by_split
    source = found.stream
    if source is None:
        assert found.source is not None
        source = ColumnSourceTransformation(
            translation.program.next_id(),
            name,
            found.source,
            columns=found.columns,
            parallelism=found.parallelism or translation.parallelism,
            watermarks=split_watermarks(translation, watermark, paths) if watermark is not None and by_split else None,
        )
        translation.name(source, node, "source")
    given = _given(translation.columns(node), found.columns, paths)
    translation.gives(node, given)
    rows = _scanned(translation, node, pushed, source, received=found.columns, given=given)
    if watermark is not None and not by_split:
        rowtime = watermark.rowtime_expr or watermark.watermark_expr
        operator = WatermarkOperator(
            "Watermarks",
            translation.expressions(watermark.watermark_expr, rowtime),
            columns=given,
            interval_ms=translation.watermark_interval_ms,
            idle_ms=idle_timeout_ms(watermark),
            on_event=is_on_event(watermark),
            is_read=translation.reads_watermark,
        )
        rows = translation.operator(node, operator, [rows], role="watermarks")
    return rows


def _scanned(
    translation: Translation,
    node: TableSourceScan,
    pushed: PushedDown,
    source: Transformation,
    *,
    received: RecordColumns,
    given: TableColumns,
) -> Transformation:
    """Return the rows with the columns of the plan, and those only that satisfy the conditions of the source."""
    condition = pushed.condition
    if condition is None:
        scan = ScanOperator("Scan", pushed.paths, received=received, given=given)
        return translation.operator(node, scan, [source], role="scan")
    more = [
        pyarrow.field(f"$condition_{number}", arrow_type(kind)) for number, kind in enumerate(pushed.condition_types)
    ]
    scanned = TableColumns(pyarrow.schema([*given.schema, *more]))
    paths = [*pushed.paths, *pushed.condition_paths]
    scan = ScanOperator("Scan", paths, received=received, given=scanned)
    columns = [RexInputRef(index=place, type=DataType(kind)) for place, kind in enumerate(pushed.types)]
    conditions = translation.expressions(condition)
    kept = CalcOperator("Filter", translation.expressions(*columns), conditions, received=scanned, given=given)
    rows = translation.operator(node, scan, [source], role="scan")
    return translation.operator(node, kept, [rows], role="filter")


def with_secrets(table: ContextResolvedTable, translation: Translation) -> ContextResolvedTable:
    """Return a table whose options have the values of secrets, not references."""
    resolved = table.resolved_table
    if resolved is None:
        raise translation.unsupported(f"the plan has no options of the table {table.identifier}: compile it again")
    options = dict(translation.secrets.resolve(resolved.options))
    return msgspec.structs.replace(table, resolved_table=msgspec.structs.replace(resolved, options=options))


def _schemas(
    table: ContextResolvedTable, paths: Sequence[Path], used: Sequence[frozenset[Path] | None]
) -> tuple[pyarrow.Schema, pyarrow.Schema]:
    """Return the columns that are read, without fields that nothing reads, and with all fields."""
    columns = {field.name: field for field in physical_columns(table)}
    wanted: dict[str, set[Path] | None] = {}
    for path, below in zip(paths, [*used, *([None] * len(paths))], strict=False):
        if path[0].startswith(METADATA):
            continue
        more = {path[1:]} if below is None else {(*path[1:], *one) for one in below}
        if () in more or wanted.get(path[0], ()) is None:
            wanted[path[0]] = None
        else:
            wanted[path[0]] = (wanted.get(path[0]) or set()) | more
    if not wanted:
        # Of a row without columns only the number counts: the cheapest column tells it.
        first = next(iter(columns))
        wanted = {first: None}
    names = [name for name in columns if name in wanted]
    schema = [pyarrow.field(name, pruned(columns[name].type, wanted[name])) for name in names]
    return pyarrow.schema(schema), pyarrow.schema([columns[name] for name in names])


def _given(full: TableColumns, source: RecordColumns, paths: Sequence[Path]) -> TableColumns:
    """Return the columns of a scan: rows have the fields that the connector gives."""
    if not paths:
        return full
    fields = []
    for field, path in zip(full.schema, paths, strict=True):
        kind = source.schema.field(path[0]).type
        for name in path[1:]:
            kind = kind.field(name).type
        fields.append(pyarrow.field(field.name, kind) if pyarrow.types.is_struct(kind) else field)
    return TableColumns(pyarrow.schema(fields))
