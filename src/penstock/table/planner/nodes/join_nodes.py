"""Nodes with two inputs, and joins with tables that are looked up."""

from __future__ import annotations

from msgspec import Struct, field

from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.base import ExecNode, Part
from penstock.table.planner.nodes.specs import AnyWindowing
from penstock.table.planner.nodes.tables import TableSourceSpec
from penstock.table.planner.rex_nodes import AnyRexNode, RexLiteral


class JoinSpec(Part, frozen=True, kw_only=True):
    """A join: INNER, LEFT, RIGHT, FULL, SEMI or ANTI; pairs of equal columns; what else is to hold."""

    join_type: str
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    """For each pair of columns: whether NULL equals nothing (`=`), or NULL (`IS NOT DISTINCT FROM`)."""
    non_equi_condition: AnyRexNode | None = None


class Join(ExecNode, frozen=True, kw_only=True, tag="stream-exec-join_1"):
    """A regular join."""

    join_spec: JoinSpec
    left_upsert_keys: tuple[tuple[int, ...], ...] = ()
    right_upsert_keys: tuple[tuple[int, ...], ...] = ()


class JoinAttribute(Part, frozen=True, kw_only=True):
    """A pair of equal columns of two inputs of a multi-join. The left one is -1, -1 for the first input."""

    left_input_id: int
    left_field_index: int
    right_input_id: int
    right_field_index: int


class MultiJoin(ExecNode, frozen=True, kw_only=True, tag="stream-exec-multi-join_1"):
    """Regular joins of several inputs by a common key in one node: without the state of joins between."""

    join_types: tuple[str, ...]
    """INNER or LEFT: how each input is joined with those before it. The first entry says nothing."""
    join_conditions: tuple[AnyRexNode | None, ...]
    """The condition of each join, over the columns of all inputs up to it."""
    multi_join_condition: AnyRexNode | None = None
    """What all rows satisfy, if all joins are inner."""
    join_attribute_map: dict[int, tuple[JoinAttribute, ...]]
    """The pairs of equal columns, by the number of the right input."""
    input_unique_keys: tuple[tuple[tuple[int, ...], ...] | None, ...]


class WindowJoin(ExecNode, frozen=True, kw_only=True, tag="stream-exec-window-join_1"):
    """A join of rows of the same window."""

    join_spec: JoinSpec
    left_windowing: AnyWindowing
    right_windowing: AnyWindowing


class IntervalJoinWindow(Part, frozen=True, kw_only=True):
    """How far the times of both rows may be apart (milliseconds): left lies in right + [lower, upper]."""

    is_event_time: bool
    left_lower_bound: int
    left_upper_bound: int
    left_time_index: int
    right_time_index: int


class IntervalJoinSpec(Part, frozen=True, kw_only=True):
    """An interval join."""

    join_spec: JoinSpec
    window_bounds: IntervalJoinWindow


class IntervalJoin(ExecNode, frozen=True, kw_only=True, tag="stream-exec-interval-join_1"):
    """A join of rows whose times are near each other."""

    interval_join_spec: IntervalJoinSpec


class TemporalJoin(ExecNode, frozen=True, kw_only=True, tag="stream-exec-temporal-join_1"):
    """A join with a table as of the row's time."""

    join_spec: JoinSpec
    left_time_attribute_index: int
    right_time_attribute_index: int = -1
    is_temporal_function_join: bool = False


class LookupKey(Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """The value with which a column of the looked up table is compared."""


class FieldReferenceKey(LookupKey, frozen=True, kw_only=True, tag="FieldRef"):
    """A column of the input."""

    index: int


class ConstantKey(LookupKey, frozen=True, kw_only=True, tag="Constant"):
    """A literal."""

    source_type: DataType
    literal: RexLiteral


class TemporalTable(Part, frozen=True, kw_only=True):
    """The table that is looked up."""

    table_source: TableSourceSpec = field(name="lookupTableSource")
    output_type: DataType


class AsyncLookupOptions(Part, frozen=True, kw_only=True):
    """Options of asynchronous lookups (milliseconds)."""

    # The name has a space in Flink 2.3.
    capacity: int = field(name="capacity ")
    timeout: int
    output_mode: str = field(name="output-mode")
    is_key_ordered: bool = field(default=False, name="is-key-ordered")


class RetryLookupOptions(Part, frozen=True, kw_only=True):
    """The hint that a lookup without a result is repeated (milliseconds)."""

    predicate: str = field(name="retry-predicate")
    strategy: str = field(name="retry-strategy")
    fixed_delay: int = field(name="fixed-delay")
    max_attempts: int = field(name="max-attempts")


class LookupJoin(ExecNode, frozen=True, kw_only=True, tag="stream-exec-lookup-join_1"):
    """A join with what a lookup gives for the row's keys."""

    join_type: str
    lookup_keys: dict[int, FieldReferenceKey | ConstantKey]
    """By the index of the column in the looked up table."""
    temporal_table: TemporalTable
    pre_filter_condition: AnyRexNode | None = None
    join_condition: AnyRexNode | None = None
    projection_on_temporal_table: tuple[AnyRexNode, ...] | None = None
    filter_on_temporal_table: AnyRexNode | None = None
    lookup_key_contains_primary_key: bool = False
    require_upsert_materialize: bool = False
    input_changelog_mode: tuple[str, ...] = ("INSERT",)
    input_upsert_key: tuple[int, ...] | None = None
    async_options: AsyncLookupOptions | None = None
    retry_options: RetryLookupOptions | None = None
    prefer_custom_shuffle: bool = False
