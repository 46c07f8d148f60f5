"""Nodes that treat each row by itself, and those that carry or order rows."""

from __future__ import annotations

from penstock.table.planner.nodes.base import ExecNode, Part
from penstock.table.planner.nodes.specs import SortSpec
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexLiteral


class Calc(ExecNode, frozen=True, kw_only=True, tag="stream-exec-calc_1"):
    """Keep rows that satisfy the condition, and compute columns."""

    projection: tuple[AnyRexNode, ...]
    condition: AnyRexNode | None = None


class PythonCalc(ExecNode, frozen=True, kw_only=True, tag="stream-exec-python-calc_1"):
    """Compute columns by Python functions."""

    projection: tuple[AnyRexNode, ...]


class Correlate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-correlate_1"):
    """Join each row with the rows that a table function gives for it. INNER or LEFT."""

    join_type: str
    function_call: RexCall
    condition: AnyRexNode | None = None


class PythonCorrelate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-python-correlate_1"):
    """Join each row with the rows that a table function in Python gives for it."""

    join_type: str
    function_call: RexCall


class Expand(ExecNode, frozen=True, kw_only=True, tag="stream-exec-expand_1"):
    """Give several rows for each: those of GROUPING SETS."""

    projects: tuple[tuple[AnyRexNode, ...], ...]


class Values(ExecNode, frozen=True, kw_only=True, tag="stream-exec-values_1"):
    """Rows of literals."""

    tuples: tuple[tuple[RexLiteral, ...], ...]


class WatermarkAssigner(ExecNode, frozen=True, kw_only=True, tag="stream-exec-watermark-assigner_1"):
    """Compute watermarks from rows."""

    watermark_expr: AnyRexNode
    rowtime_field_index: int


class MiniBatchInterval(Part, frozen=True, kw_only=True):
    """How often bundles end: milliseconds of processing time (ProcTime) or of event time (RowTime)."""

    interval: int
    mode: str


class MiniBatchAssigner(ExecNode, frozen=True, kw_only=True, tag="stream-exec-mini-batch-assigner_1"):
    """Mark the ends of bundles by watermarks."""

    mini_batch_interval: MiniBatchInterval


class Exchange(ExecNode, frozen=True, kw_only=True, tag="stream-exec-exchange_1"):
    """Distribute rows as the property of the input says."""


class Union(ExecNode, frozen=True, kw_only=True, tag="stream-exec-union_1"):
    """The rows of all inputs."""


class DropUpdateBefore(ExecNode, frozen=True, kw_only=True, tag="stream-exec-drop-update-before_1"):
    """Drop rows of the kind UPDATE_BEFORE."""


class ChangelogNormalize(ExecNode, frozen=True, kw_only=True, tag="stream-exec-changelog-normalize_1"):
    """Turn upserts into a complete changelog."""

    unique_keys: tuple[int, ...]
    generate_update_before: bool
    filter_condition: AnyRexNode | None = None


class TemporalSort(ExecNode, frozen=True, kw_only=True, tag="stream-exec-temporal-sort_1"):
    """Order rows, by a time attribute first."""

    order_by: SortSpec


class Sort(ExecNode, frozen=True, kw_only=True, tag="stream-exec-sort_1"):
    """Order all rows, at the end of bounded inputs."""

    order_by: SortSpec
