"""Windows by which the Table API groups rows. Source: PyFlink, pyflink.table.window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.common.doors.door import publish
from penstock.table.composing.making import term_of
from penstock.table.composing.sql_text import check_name
from penstock.table.composing.terms import ColumnTerm, Scope, Term, TextTerm

if TYPE_CHECKING:
    from penstock.table.expression import Expression

__all__ = [
    "GroupWindow",
    "Over",
    "OverWindow",
    "OverWindowPartitioned",
    "OverWindowPartitionedOrdered",
    "OverWindowPartitionedOrderedPreceding",
    "Session",
    "SessionWithGap",
    "SessionWithGapOnTime",
    "Slide",
    "SlideWithSize",
    "SlideWithSizeAndSlide",
    "SlideWithSizeAndSlideOnTime",
    "Tumble",
    "TumbleWithSize",
    "TumbleWithSizeOnTime",
]


class GroupWindow:
    """A window with a name: what `Table.window` takes."""

    def __init__(self, function: str, time: Term, lengths: tuple[Term, ...], name: str) -> None:
        check_name(name, "the window")
        self.name = name
        self.time = time
        self._function = function
        self._lengths = lengths

    def call(self, suffix: str, scope: Scope) -> str:
        """Return the call of the group function, or of its auxiliary function. Internal to the package."""
        arguments = ", ".join(one.sql(scope) for one in (self.time, *self._lengths))
        return f"{self._function}{suffix}({arguments})"


def _length(one: Expression, what: str) -> Term:
    term = term_of(one)
    if isinstance(term, TextTerm) and term.text.startswith("INTERVAL"):
        return term
    raise ValueError(
        f"{what} must be an interval such as lit(10).minutes, got {one!r}. Windows of a number of rows are not "
        "supported: convert the table by to_data_stream, and use count_window"
    )


def _time(one: Expression) -> Term:
    term = term_of(one)
    if not isinstance(term, ColumnTerm):
        raise ValueError(f"expected the column with the time, such as col('ts'), got {one!r}")
    return term


class Tumble:
    """Windows of one size, one behind the other."""

    @classmethod
    def over(cls, size: Expression) -> TumbleWithSize:
        """Set the size: `lit(10).minutes`."""
        return TumbleWithSize((_length(size, "the size"),))


@dataclass(frozen=True)
class TumbleWithSize:
    """A tumbling window with its size."""

    _lengths: tuple[Term, ...]

    def on(self, time_field: Expression) -> TumbleWithSizeOnTime:
        """Set the time attribute."""
        return TumbleWithSizeOnTime(self._lengths, _time(time_field))


@dataclass(frozen=True)
class TumbleWithSizeOnTime:
    """A tumbling window on its time attribute."""

    _lengths: tuple[Term, ...]
    _time: Term

    def alias(self, alias: str) -> GroupWindow:
        """Name the window."""
        return GroupWindow("TUMBLE", self._time, self._lengths, alias)


class Session:
    """Windows that end after a gap without rows."""

    @classmethod
    def with_gap(cls, gap: Expression) -> SessionWithGap:
        """Set the gap: `lit(10).minutes`."""
        return SessionWithGap((_length(gap, "the gap"),))


@dataclass(frozen=True)
class SessionWithGap:
    """A session window with its gap."""

    _lengths: tuple[Term, ...]

    def on(self, time_field: Expression) -> SessionWithGapOnTime:
        """Set the time attribute."""
        return SessionWithGapOnTime(self._lengths, _time(time_field))


@dataclass(frozen=True)
class SessionWithGapOnTime:
    """A session window on its time attribute."""

    _lengths: tuple[Term, ...]
    _time: Term

    def alias(self, alias: str) -> GroupWindow:
        """Name the window."""
        return GroupWindow("SESSION", self._time, self._lengths, alias)


class Slide:
    """Windows of one size that start every slide, and so overlap."""

    @classmethod
    def over(cls, size: Expression) -> SlideWithSize:
        """Set the size: `lit(10).minutes`."""
        return SlideWithSize(_length(size, "the size"))


@dataclass(frozen=True)
class SlideWithSize:
    """A sliding window with its size."""

    _size: Term

    def every(self, slide: Expression) -> SlideWithSizeAndSlide:
        """Set the slide."""
        return SlideWithSizeAndSlide((_length(slide, "the slide"), self._size))


@dataclass(frozen=True)
class SlideWithSizeAndSlide:
    """A sliding window with size and slide."""

    _lengths: tuple[Term, ...]

    def on(self, time_field: Expression) -> SlideWithSizeAndSlideOnTime:
        """Set the time attribute."""
        return SlideWithSizeAndSlideOnTime(self._lengths, _time(time_field))


@dataclass(frozen=True)
class SlideWithSizeAndSlideOnTime:
    """A sliding window on its time attribute."""

    _lengths: tuple[Term, ...]
    _time: Term

    def alias(self, alias: str) -> GroupWindow:
        """Name the window."""
        return GroupWindow("HOP", self._time, self._lengths, alias)


class OverWindow:
    """A window of rows around each row: what `Table.over_window` takes."""

    def __init__(
        self,
        name: str,
        partition: tuple[Term, ...],
        order: Term,
        *,
        preceding: Term | None = None,
        following: Term | None = None,
    ) -> None:
        self.name = name
        self._partition = partition
        self._order = order
        self._preceding = preceding
        self._following = following

    def sql(self, scope: Scope) -> str:
        """Return the text behind OVER. Internal to the package."""
        parts = []
        if self._partition:
            parts.append(f"PARTITION BY {', '.join(one.sql(scope) for one in self._partition)}")
        parts.append(f"ORDER BY {self._order.sql(scope)}")
        if self._preceding is not None:
            parts.append(self._bounds(scope, self._preceding))
        return " ".join(parts)

    def _bounds(self, scope: Scope, preceding: Term) -> str:
        text = preceding.sql(scope)
        following = "" if self._following is None else self._following.sql(scope)
        is_range = text.startswith("INTERVAL") or "RANGE" in text or "RANGE" in following
        start = "UNBOUNDED" if text.startswith("UNBOUNDED") else text
        if following and not following.startswith("CURRENT"):
            raise ValueError("a window of rows ends at the current row: following(CURRENT_ROW), or leave it out")
        return f"{'RANGE' if is_range else 'ROWS'} BETWEEN {start} PRECEDING AND CURRENT ROW"


class Over:
    """Windows of rows around each row."""

    @classmethod
    def order_by(cls, order_by: Expression) -> OverWindowPartitionedOrdered:
        """Order the rows by a time attribute."""
        return OverWindowPartitionedOrdered((), term_of(order_by))

    @classmethod
    def partition_by(cls, *partition_by: Expression) -> OverWindowPartitioned:
        """Take the rows with the same values."""
        return OverWindowPartitioned(tuple(map(term_of, partition_by)))


@dataclass(frozen=True)
class OverWindowPartitioned:
    """A window of rows with the same values."""

    _partition: tuple[Term, ...]

    def order_by(self, order_by: Expression) -> OverWindowPartitionedOrdered:
        """Order the rows by a time attribute."""
        return OverWindowPartitionedOrdered(self._partition, term_of(order_by))


@dataclass(frozen=True)
class OverWindowPartitionedOrdered:
    """A window of rows in an order."""

    _partition: tuple[Term, ...]
    _order: Term

    def alias(self, alias: str) -> OverWindow:
        """Name the window, which has all rows up to the current one."""
        return OverWindow(alias, self._partition, self._order)

    def preceding(self, preceding: Expression) -> OverWindowPartitionedOrderedPreceding:
        """Set the start: `row_interval(2)`, `lit(1).minutes`, UNBOUNDED_ROW or UNBOUNDED_RANGE."""
        return OverWindowPartitionedOrderedPreceding(self._partition, self._order, term_of(preceding), None)


@dataclass(frozen=True)
class OverWindowPartitionedOrderedPreceding:
    """A window of rows with its start."""

    _partition: tuple[Term, ...]
    _order: Term
    _preceding: Term
    _following: Term | None

    def alias(self, alias: str) -> OverWindow:
        """Name the window."""
        return OverWindow(alias, self._partition, self._order, preceding=self._preceding, following=self._following)

    def following(self, following: Expression) -> OverWindowPartitionedOrderedPreceding:
        """Set the end: CURRENT_ROW or CURRENT_RANGE."""
        return OverWindowPartitionedOrderedPreceding(self._partition, self._order, self._preceding, term_of(following))


publish(__name__, __all__)
