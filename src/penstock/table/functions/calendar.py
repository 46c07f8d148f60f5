"""The proleptic Gregorian calendar on int64 arrays of days since the epoch."""

from __future__ import annotations

from typing import Any

import numpy as np


def month_and_day(days: Any) -> tuple[Any, Any]:
    """Return the months since January 1970, and the day of the month from 1."""
    dates = np.asarray(days, np.int64).astype("M8[D]")
    months = dates.astype("M8[M]")
    day = (dates - months.astype("M8[D]")).astype(np.int64) + 1
    return months.astype(np.int64), day


def first_day(months: Any) -> Any:
    """Return the first day of months since January 1970."""
    return np.asarray(months, np.int64).astype("M8[M]").astype("M8[D]").astype(np.int64)


def days_in_month(months: Any) -> Any:
    """Return the number of days of months since January 1970."""
    return first_day(np.asarray(months) + 1) - first_day(months)


def year_and_month(days: Any) -> tuple[Any, Any]:
    """Return the year and the month from 1."""
    months, _ = month_and_day(days)
    return months // 12 + 1970, months % 12 + 1


def day_of_year(days: Any) -> Any:
    """Return the day of the year from 1."""
    months, _ = month_and_day(days)
    return np.asarray(days) - first_day(months - months % 12) + 1


def iso_weekday(days: Any) -> Any:
    """Return the day of the week: Monday is 1, Sunday 7."""
    return (np.asarray(days) + 3) % 7 + 1


def iso_year_and_week(days: Any) -> tuple[Any, Any]:
    """Return the year and the week of ISO 8601: a week belongs to the year of its Thursday."""
    thursday = np.asarray(days) - iso_weekday(days) + 4
    year, _ = year_and_month(thursday)
    return year, (day_of_year(thursday) - 1) // 7 + 1


def toward_zero(values: Any, divisor: int) -> Any:
    """Divide as Java's `/` does. Flink has the day of a timestamp by it: before 1970, the day after."""
    return np.where(values < 0, -(-values // divisor), values // divisor)
