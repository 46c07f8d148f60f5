"""Sources and sinks of a plan: the table, and what the planner has pushed into it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from penstock.table.logical_types import LogicalType
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.base import ExecNode, Part
from penstock.table.planner.rex_nodes import AnyRexNode


class RexExpression(Part, frozen=True, kw_only=True):
    """An expression of a schema, and its text in SQL."""

    rex_node: AnyRexNode
    serializable_string: str


class TableColumn(Part, frozen=True, kw_only=True):
    """A column of a table: physical, COMPUTED from others, or METADATA of the connector."""

    name: str
    kind: str = "PHYSICAL"
    data_type: DataType | None = None
    expression: RexExpression | None = None
    metadata_key: str | None = None
    is_virtual: bool = False
    comment: str | None = None


class WatermarkSpec(Part, frozen=True, kw_only=True):
    """The watermark of a table."""

    rowtime_attribute: str
    expression: RexExpression


class PrimaryKey(Part, frozen=True, kw_only=True):
    """The primary key of a table."""

    name: str
    type: str
    columns: tuple[str, ...]


class Index(Part, frozen=True, kw_only=True):
    """An index of a table that is looked up."""

    name: str
    columns: tuple[str, ...]


class TableSchema(Part, frozen=True, kw_only=True):
    """The schema of a table."""

    columns: tuple[TableColumn, ...]
    watermark_specs: tuple[WatermarkSpec, ...] = ()
    primary_key: PrimaryKey | None = None
    indexes: tuple[Index, ...] = ()

    @property
    def physical_row(self) -> LogicalType:
        """The physical columns, as the type of a row."""
        found = [
            (one.name, one.data_type.logical)
            for one in self.columns
            if one.kind == "PHYSICAL" and one.data_type is not None
        ]
        names, types = zip(*found, strict=True) if found else ((), ())
        return LogicalType("ROW", nullable=False, names=names, children=types)


class ResolvedTable(Part, frozen=True, kw_only=True):
    """A table of the catalog with its options."""

    schema: TableSchema
    partition_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    distribution: dict[str, Any] | None = None


class ContextResolvedTable(Part, frozen=True, kw_only=True):
    """A table and its identifier."""

    identifier: str
    resolved_table: ResolvedTable | None = None

    @property
    def resolved(self) -> ResolvedTable:
        """The table. The plan has it: translations check that before they ask a connector."""
        assert self.resolved_table is not None, f"the plan has no options of the table {self.identifier}"
        return self.resolved_table

    @property
    def name(self) -> str:
        """The identifier as pages and errors show it: without quotes, catalog and database if these are the default."""
        return self.identifier.replace("`", "").removeprefix("default_catalog.default_database.")


class Ability(Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """Something that the planner has left to a source or a sink."""


class ProjectPushDown(Ability, frozen=True, kw_only=True):
    """The source gives these columns only; a path of several indices is a field of a row."""

    projected_fields: tuple[tuple[int, ...], ...]
    produced_type: DataType


class ReadingMetadata(Ability, frozen=True, kw_only=True):
    """The source gives this metadata, after its columns."""

    metadata_keys: tuple[str, ...]
    produced_type: DataType


class WatermarkPushDown(Ability, frozen=True, kw_only=True):
    """The source gives watermarks, for each of its splits."""

    watermark_expr: AnyRexNode
    rowtime_expr: AnyRexNode | None = None
    idle_timeout_millis: int = -1
    watermark_params: dict[str, Any] | None = None
    produced_type: DataType


class SourceWatermark(Ability, frozen=True, kw_only=True):
    """The source gives the watermarks of its connector."""

    source_watermark_enabled: bool
    produced_type: DataType


class FilterPushDown(Ability, frozen=True, kw_only=True):
    """The source gives rows that satisfy all predicates only."""

    predicates: tuple[AnyRexNode, ...]
    produced_type: DataType | None = None


class LimitPushDown(Ability, frozen=True, kw_only=True):
    """The source need not give more rows than these."""

    limit: int
    produced_type: DataType | None = None


class PartitionPushDown(Ability, frozen=True, kw_only=True):
    """The source reads these partitions only."""

    partitions: tuple[dict[str, str], ...]
    produced_type: DataType | None = None


class WritingMetadata(Ability, frozen=True, kw_only=True):
    """The sink takes this metadata, after its columns."""

    metadata_keys: tuple[str, ...]
    consumed_type: DataType


class Partitioning(Ability, frozen=True, kw_only=True):
    """INSERT INTO ... PARTITION: values of partition columns."""

    partition: dict[str, str]


class Bucketing(Ability, frozen=True, kw_only=True):
    """DISTRIBUTED BY: the sink groups rows into buckets."""


class TargetColumnWriting(Ability, frozen=True, kw_only=True):
    """Paths of the columns that the statement names."""

    target_columns: tuple[tuple[int, ...], ...]


class Overwrite(Ability, frozen=True, kw_only=True):
    """INSERT OVERWRITE."""

    overwrite: bool


SourceAbility = (
    ProjectPushDown
    | ReadingMetadata
    | WatermarkPushDown
    | SourceWatermark
    | FilterPushDown
    | LimitPushDown
    | PartitionPushDown
)
SinkAbility = WritingMetadata | Partitioning | Bucketing | TargetColumnWriting | Overwrite


class TableSourceSpec(Part, frozen=True, kw_only=True):
    """A table to read."""

    table: ContextResolvedTable
    abilities: tuple[SourceAbility, ...] = ()


class TableSinkSpec(Part, frozen=True, kw_only=True):
    """A table to write. `target_columns`: paths of the columns that the statement names, if not all."""

    table: ContextResolvedTable
    abilities: tuple[SinkAbility, ...] = ()
    target_columns: tuple[tuple[int, ...], ...] | None = None


class TableSourceScan(ExecNode, frozen=True, kw_only=True, tag="stream-exec-table-source-scan_2"):
    """Read a table."""

    scan_table_source: TableSourceSpec


class TableSourceScan1(TableSourceScan, frozen=True, kw_only=True, tag="stream-exec-table-source-scan_1"):
    """The version of plans older than Flink 2.1."""


class Sink(ExecNode, frozen=True, kw_only=True, tag="stream-exec-sink_2"):
    """Write into a table."""

    dynamic_table_sink: TableSinkSpec
    input_changelog_mode: tuple[str, ...]
    """INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE: the kinds of rows that arrive. ~DELETE: deletions that may have
    values in columns of the key only."""
    input_upsert_key: tuple[int, ...] | None = None
    require_upsert_materialize: bool = False
    upsert_materialize_strategy: str | None = None
    conflict_strategy: dict[str, str] | None = None


class Sink1(Sink, frozen=True, kw_only=True, tag="stream-exec-sink_1"):
    """The version of plans older than Flink 2.3."""
