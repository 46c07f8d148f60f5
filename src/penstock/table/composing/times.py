"""Methods of expressions whose values are times, and intervals."""

from __future__ import annotations

from enum import Enum
from typing import Self

from penstock.table.composing.making import Making
from penstock.table.composing.sql_text import interval
from penstock.table.composing.terms import PropertyTerm, TextTerm, ValueTerm


class TimeMethods(Making):
    """Methods of expressions whose values are times, and intervals."""

    @property
    def to_date(self) -> Self:
        """Return the date of a text."""
        return self._made("CAST({} AS DATE)")

    @property
    def to_time(self) -> Self:
        """Return the time of day of a text."""
        return self._made("CAST({} AS TIME)")

    @property
    def to_timestamp(self) -> Self:
        """Return the timestamp of a text."""
        return self._made("CAST({} AS TIMESTAMP(3))")

    def extract(self, time_interval_unit: Enum) -> Self:
        """Return a part of a time, of a TimeIntervalUnit."""
        return self._made(f"EXTRACT({time_interval_unit.name} FROM {{}})")

    def floor(self, time_interval_unit: Enum | None = None) -> Self:
        """Round down: a number, or a time to a TimeIntervalUnit."""
        return self._made("FLOOR({})" if time_interval_unit is None else f"FLOOR({{}} TO {time_interval_unit.name})")

    def ceil(self, time_interval_unit: Enum | None = None) -> Self:
        """Round up: a number, or a time to a TimeIntervalUnit."""
        return self._made("CEIL({})" if time_interval_unit is None else f"CEIL({{}} TO {time_interval_unit.name})")

    @property
    def start(self) -> Self:
        """Return the start of the window by which the table is grouped (inclusive)."""
        return self._of_term(PropertyTerm(self.term, "_START"))

    @property
    def end(self) -> Self:
        """Return the end of the window by which the table is grouped (exclusive)."""
        return self._of_term(PropertyTerm(self.term, "_END"))

    @property
    def rowtime(self) -> Self:
        """Return the event time of the results of the window by which the table is grouped."""
        return self._of_term(PropertyTerm(self.term, "_ROWTIME"))

    @property
    def proctime(self) -> Self:
        """Return the processing time of the results of the window by which the table is grouped."""
        return self._of_term(PropertyTerm(self.term, "_PROCTIME"))

    @property
    def year(self) -> Self:
        """Return an interval of this many years."""
        return self._interval("YEAR")

    @property
    def years(self) -> Self:
        """Return an interval of this many years."""
        return self._interval("YEAR")

    @property
    def quarter(self) -> Self:
        """Return an interval of this many quarters."""
        return self._interval("QUARTER")

    @property
    def quarters(self) -> Self:
        """Return an interval of this many quarters."""
        return self._interval("QUARTER")

    @property
    def month(self) -> Self:
        """Return an interval of this many months."""
        return self._interval("MONTH")

    @property
    def months(self) -> Self:
        """Return an interval of this many months."""
        return self._interval("MONTH")

    @property
    def week(self) -> Self:
        """Return an interval of this many weeks."""
        return self._interval("WEEK")

    @property
    def weeks(self) -> Self:
        """Return an interval of this many weeks."""
        return self._interval("WEEK")

    @property
    def day(self) -> Self:
        """Return an interval of this many days."""
        return self._interval("DAY")

    @property
    def days(self) -> Self:
        """Return an interval of this many days."""
        return self._interval("DAY")

    @property
    def hour(self) -> Self:
        """Return an interval of this many hours."""
        return self._interval("HOUR")

    @property
    def hours(self) -> Self:
        """Return an interval of this many hours."""
        return self._interval("HOUR")

    @property
    def minute(self) -> Self:
        """Return an interval of this many minutes."""
        return self._interval("MINUTE")

    @property
    def minutes(self) -> Self:
        """Return an interval of this many minutes."""
        return self._interval("MINUTE")

    @property
    def second(self) -> Self:
        """Return an interval of this many seconds."""
        return self._interval("SECOND")

    @property
    def seconds(self) -> Self:
        """Return an interval of this many seconds."""
        return self._interval("SECOND")

    @property
    def milli(self) -> Self:
        """Return an interval of this many millis (milliseconds)."""
        return self._interval("MILLISECOND")

    @property
    def millis(self) -> Self:
        """Return an interval of this many millis (milliseconds)."""
        return self._interval("MILLISECOND")

    def _interval(self, unit: str) -> Self:
        amount = self.term.value if isinstance(self.term, ValueTerm) else None
        if isinstance(amount, int) and unit not in ("QUARTER", "WEEK"):
            return self._of_term(TextTerm(interval(amount, unit)))
        factor, of_unit = {"QUARTER": (3, "MONTH"), "WEEK": (7, "DAY")}.get(unit, (1, unit))
        if isinstance(amount, int):
            return self._of_term(TextTerm(interval(amount * factor, of_unit)))
        return self._made(f"({{}} * {interval(factor, of_unit)})")
