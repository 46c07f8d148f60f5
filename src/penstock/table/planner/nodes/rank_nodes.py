"""Nodes for the first rows of a group: top N, deduplication, LIMIT."""

from __future__ import annotations

from msgspec import Struct, field

from penstock.table.planner.nodes.base import ExecNode
from penstock.table.planner.nodes.specs import AnyRankRange, AnyWindowing, PartitionSpec, SortSpec


class RankStrategy(Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """The way of ranking that the changes of the input allow."""


class AppendFast(RankStrategy, frozen=True, kw_only=True):
    """The input has insertions only."""


class Retract(RankStrategy, frozen=True, kw_only=True):
    """The input has changes of any kind."""


class UpdateFast(RankStrategy, frozen=True, kw_only=True):
    """A row of the input replaces the one with its key, and its rank does not get worse."""

    primary_keys: tuple[int, ...]


AnyRankStrategy = AppendFast | Retract | UpdateFast


class Rank(ExecNode, frozen=True, kw_only=True, tag="stream-exec-rank_1"):
    """Top N: the rows of each partition with these ranks."""

    rank_type: str
    partition: PartitionSpec
    order_by: SortSpec
    rank_range: AnyRankRange
    rank_strategy: AnyRankStrategy
    output_row_number: bool
    generate_update_before: bool


class Limit(Rank, frozen=True, kw_only=True, tag="stream-exec-limit_1"):
    """LIMIT without an order."""


class SortLimit(Rank, frozen=True, kw_only=True, tag="stream-exec-sort-limit_1"):
    """ORDER BY with LIMIT."""


class WindowRank(ExecNode, frozen=True, kw_only=True, tag="stream-exec-window-rank_1"):
    """Top N of each window."""

    rank_type: str
    partition: PartitionSpec = field(name="partitionSpec")
    order_by: SortSpec = field(name="sortSpec")
    rank_range: AnyRankRange
    output_row_number: bool
    windowing: AnyWindowing


class Deduplicate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-deduplicate_1"):
    """The first or the last row of each key."""

    unique_keys: tuple[int, ...]
    is_rowtime: bool
    keep_last_row: bool
    generate_update_before: bool
    output_insert_only: bool = False


class WindowDeduplicate(ExecNode, frozen=True, kw_only=True, tag="stream-exec-window-deduplicate_1"):
    """The first or the last row of each key in each window."""

    partition_keys: tuple[int, ...]
    order_key: int
    keep_last_row: bool
    windowing: AnyWindowing
