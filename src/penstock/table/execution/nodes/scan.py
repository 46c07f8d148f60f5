"""TableSourceScan: the connector, and what the planner has pushed into it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.engine.plan.transformations import Transformation
from penstock.table.connectors.table_connector import METADATA, ScanRequest, connector_of, physical_columns
from penstock.table.connectors.table_options import CONNECTOR
from penstock.table.execution.column_source import ColumnSourceTransformation
from penstock.table.execution.pruning import fields_read, pruned
from penstock.table.execution.registry import translates
from penstock.table.execution.split_watermarks import idle_timeout_ms, split_watermarks
from penstock.table.execution.translation import ZONE, Translation
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.operators.scan import Path, ScanOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.watermarks import WatermarkOperator
from penstock.table.planner.nodes.tables import (
    ContextResolvedTable,
    FilterPushDown,
    LimitPushDown,
    ProjectPushDown,
    ReadingMetadata,
    SourceAbility,
    SourceWatermark,
    TableSourceScan,
    TableSourceScan1,
    WatermarkPushDown,
)
from penstock.table.planner.rex_nodes import RexCall

_STREAMS = "data-stream"


@translates(TableSourceScan, TableSourceScan1)
def scan(translation: Translation, node: TableSourceScan, inputs: Sequence[Transformation]) -> Transformation:
    """Translate a scan: the source, a projection, and perhaps watermarks."""
    table = with_secrets(node.scan_table_source.table, translation)
    paths, metadata, watermark = pushed_down(translation, node.scan_table_source.abilities, table)
    used = fields_read(translation.plan, node)
    schema, whole = _schemas(table, paths, used)
    request = ScanRequest(
        table,
        schema,
        whole=whole,
        metadata={key: kind for key, (_, kind) in metadata.items()},
        zone=translation.options.get(ZONE, "UTC"),
    )
    found = connector_of(table).scan(request)
    name = table.identifier.replace("`", "")
    by_split = watermark is not None and found.watermarks_by_split
    source = found.stream
    if source is None:
        assert found.source is not None
        source = ColumnSourceTransformation(
            translation.program.next_id(),
            name,
            found.source,
            columns=found.columns,
            parallelism=found.parallelism,
            watermarks=split_watermarks(translation, watermark, paths) if watermark is not None and by_split else None,
        )
        translation.name(source, node, "source")
    given = _given(translation.columns(node), found.columns, paths)
    translation.gives(node, given)
    rows: Transformation = translation.operator(
        node, ScanOperator("Scan", paths, received=found.columns, given=given), [source], role="scan"
    )
    if watermark is not None and not by_split:
        rowtime = watermark.rowtime_expr or watermark.watermark_expr
        operator = WatermarkOperator(
            "Watermarks",
            translation.expressions(watermark.watermark_expr, rowtime),
            columns=given,
            interval_ms=translation.watermark_interval_ms,
            idle_ms=idle_timeout_ms(watermark),
        )
        rows = translation.operator(node, operator, [rows], role="watermarks")
    return rows


def with_secrets(table: ContextResolvedTable, translation: Translation) -> ContextResolvedTable:
    """Return a table whose options have the values of secrets, not references."""
    resolved = table.resolved_table
    if resolved is None:
        raise translation.unsupported(f"the plan has no options of the table {table.identifier}: compile it again")
    options = dict(translation.secrets.resolve(resolved.options))
    return msgspec.structs.replace(table, resolved_table=msgspec.structs.replace(resolved, options=options))


def pushed_down(
    translation: Translation, abilities: Sequence[SourceAbility], table: ContextResolvedTable
) -> tuple[list[Path], dict[str, tuple[str, pyarrow.DataType]], WatermarkPushDown | None]:
    """Return the paths of the scan's columns, its metadata by key (with the column's name), and its watermark."""
    columns = physical_columns(table)
    paths: list[Path] = [(field.name,) for field in columns]
    metadata: dict[str, tuple[str, pyarrow.DataType]] = {}
    watermark = None
    for ability in abilities:
        if isinstance(ability, ProjectPushDown):
            paths = [_path(columns, indices) for indices in ability.projected_fields]
        elif isinstance(ability, ReadingMetadata):
            kinds = [arrow_type(one) for one in ability.produced_type.fields[len(paths) :]]
            metadata = {key: (METADATA + key, kind) for key, kind in zip(ability.metadata_keys, kinds, strict=True)}
            paths = [*paths, *((name,) for name, _ in metadata.values())]
        elif _is_of_source(ability):
            # The watermarks of a stream come with its rows.
            if table.resolved_table is None or table.resolved_table.options.get(CONNECTOR) != _STREAMS:
                raise translation.unsupported("SOURCE_WATERMARK() is not supported: declare an expression")
        elif isinstance(ability, WatermarkPushDown):
            watermark = ability
        elif isinstance(ability, LimitPushDown) or (isinstance(ability, FilterPushDown) and not ability.predicates):
            # Plans of Flink's connectors: the source need not give more rows, and the plan limits them again.
            continue
        else:
            raise translation.unsupported(f"{type(ability).__name__} is not supported by the connector")
    return paths, metadata, watermark


def _is_of_source(ability: object) -> bool:
    if isinstance(ability, SourceWatermark):
        return True
    expression = ability.watermark_expr if isinstance(ability, WatermarkPushDown) else None
    return isinstance(expression, RexCall) and expression.name == "SOURCE_WATERMARK"


def _path(columns: Sequence[pyarrow.Field], indices: Sequence[int]) -> Path:
    field = columns[indices[0]]
    names = [field.name]
    for index in indices[1:]:
        field = field.type.field(index)
        names.append(field.name)
    return tuple(names)


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
