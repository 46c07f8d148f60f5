"""Functions of dates and times: fields, units, Java's patterns, time zones."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.table.sql_evaluation import evaluate, type_of

from penstock.table.functions.calls import call
from penstock.table.functions.java_dates import PatternError, formatted, parsed, tokens_of
from penstock.table.functions.registry import Context
from penstock.table.functions.zones import zone_of

TIMES = [datetime(2024, 2, 29, 13, 5, 9, 87_000), datetime(2021, 1, 1, 23, 59, 59), None]


def over(expression: str, zone: str = "UTC") -> list[Any]:
    return evaluate(expression, zone, a=("TIMESTAMP(3)", TIMES))


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("YEAR", [2024, 2021, None]), ("QUARTER", [1, 1, None]), ("DOY", [60, 1, None]), ("DOW", [5, 6, None]),
        ("WEEK", [9, 53, None]), ("ISOYEAR", [2024, 2020, None]), ("HOUR", [13, 23, None]),
        ("MILLISECOND", [87, 0, None]), ("EPOCH", [1709211909, 1609545599, None]), ("CENTURY", [21, 21, None]),
    ],
)  # fmt: skip
def test_fields_of_times(unit: str, expected: list[Any]) -> None:
    """Groups by week or weekday would be Python's: from Monday, from 0."""
    assert over(f"EXTRACT({unit} FROM a)") == expected


def test_before_1970_flink_counts_toward_it() -> None:
    """Old dates would differ from Flink's, which divides as Java does."""
    old = ("TIMESTAMP(3)", [datetime(1969, 12, 31, 23), datetime(1969, 12, 31, 23, 59, 58, 500_000)])
    assert evaluate("EXTRACT(YEAR FROM a)", a=old) == [1970, 1970]
    assert evaluate("EXTRACT(HOUR FROM a)", a=old) == [-1, 0]
    assert evaluate("EXTRACT(EPOCH FROM a)", a=old) == [-3600, -1]
    assert evaluate("EXTRACT(MILLISECOND FROM a)", a=old) == [0, -500]
    assert [one.year for one in evaluate("CAST(a AS DATE)", a=old)] == [1970, 1970]


def test_fields_of_instants_are_local() -> None:
    """Hours of the day would be those of London for everyone."""
    instants = ("TIMESTAMP_LTZ(3)", [datetime(2024, 7, 1, 2)])
    assert evaluate("EXTRACT(HOUR FROM a)", "America/New_York", a=instants) == [22]
    assert evaluate("DATE_FORMAT(a, 'yyyy-MM-dd HH:mm')", "America/New_York", a=instants) == ["2024-06-30 22:00"]
    assert evaluate("CAST(FLOOR(a TO DAY) AS STRING)", "Asia/Kolkata", a=instants) == ["2024-07-01 00:00:00.000"]


def test_units_are_cut_and_rounded_up() -> None:
    """Windows by calendar units would begin elsewhere."""
    assert over("FLOOR(a TO WEEK)")[0] == datetime(2024, 2, 25)
    assert over("FLOOR(a TO HOUR)") == [datetime(2024, 2, 29, 13), datetime(2021, 1, 1, 23), None]
    assert over("CEIL(a TO MONTH)") == [datetime(2024, 3, 1), datetime(2021, 1, 1), None]
    assert over("CEIL(a TO DAY)")[0] == datetime(2024, 3, 1)


def test_months_are_added_within_the_month() -> None:
    """The 31st plus a month would spill into the month after the next."""
    dates = evaluate("CAST(a AS DATE) + INTERVAL '1' MONTH", a=("STRING", ["2024-01-31", "2023-12-15", None]))
    assert [one and one.isoformat() for one in dates] == ["2024-02-29", "2024-01-15", None]
    assert over("a + INTERVAL '1' YEAR")[0] == datetime(2025, 2, 28, 13, 5, 9, 87_000)
    assert over("a - INTERVAL '4' SECOND")[0] == datetime(2024, 2, 29, 13, 5, 5, 87_000)


def test_differences_count_whole_units() -> None:
    """A month would have passed a day too early."""
    starts = ("TIMESTAMP(3)", [datetime(2024, 1, 31), datetime(2024, 1, 30, 12)])
    end = "TIMESTAMP '2024-02-29 12:00:00'"
    assert evaluate(f"TIMESTAMPDIFF(MONTH, a, {end})", a=starts) == [1, 1]  # a month after the 31st is the 29th
    assert evaluate(f"TIMESTAMPDIFF(MONTH, {end}, a)", a=starts) == [-1, -1]
    assert evaluate(f"TIMESTAMPDIFF(DAY, a, {end})", a=starts) == [29, 30]
    assert evaluate(f"TIMESTAMPDIFF(HOUR, {end}, a)", a=starts) == [-708, -720]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 13:05:09.087"),
        ("d.M.yy h:mm a", "29.2.24 1:05 PM"),
        ("EEE, dd MMM yyyy", "Thu, 29 Feb 2024"),
        ("EEEE 'the' d MMMM", "Thursday the 29 February"),
        ("yyyyDDD", "2024060"),
        ("Q''HH", "1'13"),
    ],
)
def test_dates_are_written_by_javas_patterns(pattern: str, text: str) -> None:
    """Keys such as '2024-02-29' would have another form."""
    quoted = pattern.replace("'", "''")
    assert over(f"DATE_FORMAT(a, '{quoted}')") == [text, over(f"DATE_FORMAT(a, '{quoted}')")[1], None]


def test_dates_are_read_by_javas_patterns() -> None:
    """Timestamps of logs would be NULL, or those that are wrong be accepted."""
    texts = ("STRING", ["29/02/2024 13:05", "30/02/2024 13:05", "2024-2-9", None])
    found = evaluate("TO_TIMESTAMP(a, 'dd/MM/yyyy HH:mm')", a=texts)
    assert found == [datetime(2024, 2, 29, 13, 5), datetime(2024, 2, 29, 13, 5), datetime(2024, 2, 9), None]
    dates = evaluate("TO_DATE(a, 'yyyy-MM-dd')", a=("STRING", ["2024-02-30", "2024-13-01", "x"]))
    assert [one and one.isoformat() for one in dates] == ["2024-03-01", "2025-01-01", None]
    assert parsed("20240229130509", "yyyyMMddHHmmss") == parsed("2024-02-29 13:05:09", "yyyy-MM-dd HH:mm:ss")
    with pytest.raises(PatternError, match="Unknown pattern letter: b"):
        tokens_of("yyyy-bb")


def test_what_is_written_is_read_again() -> None:
    """A table that is written and read by one format would change."""
    moment = parsed("2024-02-29 13:05:09.087", "yyyy-MM-dd HH:mm:ss.SSS")
    assert moment is not None
    for pattern in ("yyyy-MM-dd HH:mm:ss.SSS", "yyMMddHHmmssSSS", "d MMM yyyy h:mm:ss.SSS a", "yyyy DDD HH:mm:ss.SSS"):
        assert parsed(formatted(moment, pattern), pattern) == moment


def test_unix_times_are_in_the_sessions_zone() -> None:
    """Partitions by day would be cut at midnight in UTC."""
    assert evaluate("FROM_UNIXTIME(a)", "Asia/Tokyo", a=("BIGINT", [0, None])) == ["1970-01-01 09:00:00", None]
    assert evaluate("UNIX_TIMESTAMP(a)", "Asia/Tokyo", a=("STRING", ["1970-01-01 09:00:00", "x"])) == [0, -(2**63)]
    assert evaluate("CONVERT_TZ(a, 'UTC', 'America/Los_Angeles')", a=("STRING", ["1970-01-01 00:00:00", "?"])) == [
        "1969-12-31 16:00:00", None,
    ]  # fmt: skip


def test_the_precision_of_an_instant_is_that_of_its_pattern() -> None:
    """Microseconds of a log would be cut."""
    assert type_of("TO_TIMESTAMP_LTZ(a, 'yyyy-MM-dd HH:mm:ss.SSSSSS')", a="STRING") == "TIMESTAMP_LTZ(6)"
    assert type_of("TO_TIMESTAMP_LTZ(a, 3)", a="BIGINT NOT NULL") == "TIMESTAMP_LTZ(3)"


def test_the_present_is_the_contexts() -> None:
    """A replayed job would see another time than the first run."""
    context = Context(rows=2, zone="Asia/Tokyo", now_us=1_000_000 * 86_400 * 10 + 5_000)
    assert call("CURRENT_TIMESTAMP", [], [], context=context) == pa.scalar(864_000_005, pa.timestamp("ms", "UTC"))
    assert str(call("LOCALTIMESTAMP", [], [], context=context)) == "1970-01-11 09:00:00.005000"
    assert call("CURRENT_DATE", [], [], context=context).as_py().day == 11


@pytest.mark.parametrize("name", ["GMT+08:00", "UTC+8", "+08:00", "Asia/Singapore"])
def test_zones_have_javas_names(name: str) -> None:
    """A configuration that Flink accepts would be refused."""
    assert evaluate("FROM_UNIXTIME(a, 'HH')", name, a=("INT", [1_700_000_000])) == ["06"]


@pytest.mark.parametrize("name", ["un-parsable zone", "Mars/Base", "+19:00"])
def test_unknown_zones_are_refused(name: str) -> None:
    """Times would silently be those of UTC."""
    with pytest.raises(ValueError, match=r"Invalid|Unknown|range"):
        zone_of(name)
