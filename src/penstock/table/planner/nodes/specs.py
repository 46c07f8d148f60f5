"""Parts that nodes share: sort orders, partitions, ranges of ranks, windows."""

from __future__ import annotations

from msgspec import Struct, field

from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.base import Part


class SortField(Part, frozen=True, kw_only=True):
    """A column of ORDER BY."""

    index: int
    is_ascending: bool
    null_is_last: bool


class SortSpec(Part, frozen=True, kw_only=True):
    """ORDER BY."""

    fields: tuple[SortField, ...]


class PartitionSpec(Part, frozen=True, kw_only=True):
    """PARTITION BY: indices of columns."""

    fields: tuple[int, ...]


class RankRange(Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """Which ranks are kept."""


class ConstantRankRange(RankRange, frozen=True, kw_only=True, tag="Constant"):
    """From `start` to `end`, both included; the first rank is 1."""

    start: int
    end: int


class VariableRankRange(RankRange, frozen=True, kw_only=True, tag="Variable"):
    """Up to the value of a column."""

    end_index: int


AnyRankRange = ConstantRankRange | VariableRankRange


class Window(Struct, frozen=True, kw_only=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """A window table function. Durations are ISO 8601 (`PT10S`)."""


class TumblingWindow(Window, frozen=True, kw_only=True):
    """TUMBLE."""

    size: str
    offset: str | None = None


class HoppingWindow(Window, frozen=True, kw_only=True):
    """HOP."""

    size: str
    slide: str
    offset: str | None = None


class CumulativeWindow(Window, frozen=True, kw_only=True):
    """CUMULATE."""

    max_size: str
    step: str
    offset: str | None = None


class SessionWindow(Window, frozen=True, kw_only=True):
    """SESSION, for each value of the partition's columns."""

    gap: str
    partition_keys: tuple[int, ...] = field(default=(), name="partition_key_indices")


AnyWindow = TumblingWindow | HoppingWindow | CumulativeWindow | SessionWindow


class Windowing(Struct, frozen=True, kw_only=True, tag_field="strategy", rename="camel", forbid_unknown_fields=True):
    """How rows are assigned to windows."""

    window: AnyWindow
    time_attribute_type: DataType
    is_rowtime: bool


class TimeAttributeWindowing(Windowing, frozen=True, kw_only=True, tag="TimeAttribute"):
    """By a time attribute."""

    time_attribute_index: int


class WindowAttachedWindowing(Windowing, frozen=True, kw_only=True, tag="WindowAttached"):
    """By columns with the window's start and end; -1: there is no such column."""

    window_start: int = -1
    window_end: int = -1


class SliceAttachedWindowing(Windowing, frozen=True, kw_only=True, tag="SliceAttached"):
    """By a column with the end of the slice."""

    slice_end: int


AnyWindowing = TimeAttributeWindowing | WindowAttachedWindowing | SliceAttachedWindowing


class WindowReference(Part, frozen=True, kw_only=True):
    """A window by its name, with the type of its times."""

    name: str
    type: DataType


class WindowProperty(Part, frozen=True, kw_only=True):
    """WindowStart, WindowEnd, Rowtime or Proctime of a window."""

    kind: str
    reference: WindowReference


class NamedWindowProperty(Part, frozen=True, kw_only=True):
    """A property of a window as a column."""

    name: str
    property: WindowProperty
