"""Nodes that aggregate: groups, windows, OVER."""

from __future__ import annotations

import re

from msgspec import Struct

from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.base import ExecNode, Part
from penstock.table.planner.nodes.specs import (
    AnyWindowing,
    NamedWindowProperty,
    PartitionSpec,
    SortSpec,
    WindowReference,
)
from penstock.table.planner.rex_nodes import AnyRexNode, RexLiteral


class AggregateCall(Part, frozen=True, kw_only=True):
    """A call of an aggregate function on columns of the input."""

    name: str | None
    type: DataType
    arg_list: tuple[int, ...]
    filter_arg: int = -1
    """The column of FILTER; -1: none."""
    distinct: bool = False
    approximate: bool = False
    ignore_nulls: bool = False
    internal_name: str | None = None
    catalog_name: str | None = None
    system_name: str | None = None
    syntax: str = "FUNCTION"

    @property
    def function(self) -> str:
        """The function: `COUNT`, or the name of a user's."""
        match = re.fullmatch(r"\$(.+)\$\d+", self.internal_name or "")
        return match[1] if match else self.catalog_name or self.system_name or ""


class GroupAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-group-aggregate_1"):
    """GROUP BY, in one phase."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    generate_update_before: bool
    need_retraction: bool


class LocalGroupAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-local-group-aggregate_1"):
    """GROUP BY of a bundle, before the exchange: gives accumulators."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    need_retraction: bool


class GlobalGroupAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-global-group-aggregate_1"):
    """GROUP BY of accumulators."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    agg_call_need_retractions: tuple[bool, ...]
    local_agg_input_row_type: DataType
    generate_update_before: bool
    need_retraction: bool
    index_of_count_star: int | None = None


class IncrementalGroupAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-incremental-group-aggregate_1"):
    """The middle of a split DISTINCT: final for the finer group, local for the coarser one."""

    partial_agg_grouping: tuple[int, ...]
    final_agg_grouping: tuple[int, ...]
    partial_original_agg_calls: tuple[AggregateCall, ...]
    partial_agg_call_need_retractions: tuple[bool, ...]
    partial_local_agg_input_row_type: DataType
    partial_agg_need_retraction: bool


class WindowTableFunction(ExecNode, frozen=True, kw_only=True, tag="stream-exec-window-table-function_1"):
    """Add window_start, window_end and window_time to each row, once for each of its windows."""

    windowing: AnyWindowing


class WindowAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-window-aggregate_1"):
    """GROUP BY of a window table function, in one phase."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    windowing: AnyWindowing
    named_window_properties: tuple[NamedWindowProperty, ...]
    need_retraction: bool = False


class LocalWindowAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-local-window-aggregate_1"):
    """GROUP BY of slices of a window, before the exchange: gives accumulators."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    windowing: AnyWindowing
    need_retraction: bool = False


class GlobalWindowAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-global-window-aggregate_1"):
    """GROUP BY of accumulators of slices."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    windowing: AnyWindowing
    named_window_properties: tuple[NamedWindowProperty, ...]
    local_agg_input_row_type: DataType
    need_retraction: bool = False


class FieldReference(Part, frozen=True, kw_only=True):
    """A column of the input."""

    field_name: str
    field_index: int
    input_index: int
    field_type: DataType


class LogicalWindow(Part, frozen=True, kw_only=True):
    """A group window: TUMBLING, SLIDING or SESSION. Durations are ISO 8601; if not `is_time_window`, rows."""

    kind: str
    alias: WindowReference
    time_field: FieldReference
    is_time_window: bool = True
    size: str | int | None = None
    slide: str | int | None = None
    gap: str | None = None


class GroupWindowAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-group-window-aggregate_1"):
    """GROUP BY of a group window: `TUMBLE(ts, ...)` among the columns of GROUP BY."""

    grouping: tuple[int, ...]
    agg_calls: tuple[AggregateCall, ...]
    window: LogicalWindow
    named_window_properties: tuple[NamedWindowProperty, ...]
    need_retraction: bool


class Bound(Struct, frozen=True, kw_only=True, tag_field="kind", rename="camel", forbid_unknown_fields=True):
    """An end of a frame."""


class UnboundedPreceding(Bound, frozen=True, kw_only=True, tag="UNBOUNDED_PRECEDING"):
    """From the first row."""


class UnboundedFollowing(Bound, frozen=True, kw_only=True, tag="UNBOUNDED_FOLLOWING"):
    """To the last row."""


class CurrentRow(Bound, frozen=True, kw_only=True, tag="CURRENT_ROW"):
    """To the current row, and those equal to it."""


class BoundedWindow(Bound, frozen=True, kw_only=True, tag="BOUNDED_WINDOW"):
    """So many rows, or so long, before or after the current row. `offset` refers to a constant of the OVER clause."""

    is_preceding: bool
    offset: AnyRexNode


AnyBound = UnboundedPreceding | UnboundedFollowing | CurrentRow | BoundedWindow


class OverGroup(Part, frozen=True, kw_only=True):
    """Aggregates over one frame. Arguments behind the columns of the input are constants."""

    order_by: SortSpec
    is_rows: bool
    lower_bound: AnyBound
    upper_bound: AnyBound
    agg_calls: tuple[AggregateCall, ...]


class OverSpec(Part, frozen=True, kw_only=True):
    """The OVER clauses of one partition."""

    partition: PartitionSpec
    groups: tuple[OverGroup, ...]
    constants: tuple[RexLiteral, ...]
    original_input_fields: int


class OverAggregate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-over-aggregate_1"):
    """Aggregates with OVER."""

    over_spec: OverSpec
    unbounded_over_version: int = 1
