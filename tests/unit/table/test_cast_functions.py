"""CAST and TRY_CAST where Flink's conversions surprise."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from tests.unit.table.sql_evaluation import evaluate

from penstock.table.functions.errors import FunctionError, InvalidCallError


def cast(kind: str, values: list[Any], target: str, zone: str = "UTC") -> list[Any]:
    return evaluate(f"CAST(a AS {target})", zone, a=(kind, values))


def test_numbers_are_narrowed_as_in_java() -> None:
    """Arrow refuses what Flink wraps or saturates: the job would fail for one row."""
    assert cast("INT", [300, -1, None], "TINYINT") == [44, -1, None]
    assert cast("DOUBLE", [1e30, -1e30, math.nan, 1.9, None], "INT") == [2**31 - 1, -(2**31), 0, 1, None]
    assert cast("DOUBLE", [1e30, -1e30], "BIGINT") == [2**63 - 1, -(2**63)]
    assert cast("DOUBLE", [300.0], "TINYINT") == [44]
    assert cast("DECIMAL(20, 1)", [Decimal("4294967297.9")], "INT") == [1]


def test_decimals_that_do_not_fit_are_null() -> None:
    """A job would stop at the first amount that is too large for its column."""
    assert cast("INT", [1234, 12, None], "DECIMAL(3, 1)") == [None, Decimal("12.0"), None]
    assert cast("DOUBLE", [0.125, 1e20], "DECIMAL(5, 2)") == [Decimal("0.13"), None]
    assert cast("DECIMAL(5, 3)", [Decimal("-0.125"), Decimal("99.999")], "DECIMAL(4, 2)") == [
        Decimal("-0.13"), None,
    ]  # fmt: skip


def test_text_that_is_no_number_fails_or_is_null() -> None:
    """CAST would hide bad rows, or TRY_CAST stop at them."""
    texts = ["1", " 2 ", "3.9", "x", None]
    assert evaluate("TRY_CAST(a AS INT)", a=("STRING", texts)) == [1, 2, 3, None, None]
    with pytest.raises(FunctionError, match="'x'"):
        cast("STRING", texts, "INT")
    assert cast("STRING", ["7", "+8"], "BIGINT") == [7, 8]
    for text in ("0x10", "inf", "nan", "", "1_000"):
        assert evaluate("TRY_CAST(a AS BIGINT)", a=("STRING", [text])) == [None]
        assert evaluate("TRY_CAST(a AS DOUBLE)", a=("STRING", [text])) == [None]


def test_numbers_are_written_as_in_java() -> None:
    """A sink of text would get 1e+10 where Flink writes 1.0E10."""
    doubles = [1e10, 0.001, 1e-5, 100.0, -0.0, math.inf, math.nan, None]
    assert cast("DOUBLE", doubles, "STRING") == [
        "1.0E10", "0.001", "1.0E-5", "100.0", "-0.0", "Infinity", "NaN", None,
    ]  # fmt: skip
    assert cast("FLOAT", [1e10, 0.1], "STRING") == ["1.0E10", "0.1"]
    assert cast("DECIMAL(10, 8)", [Decimal("1E-8")], "STRING") == ["0.00000001"]
    assert cast("BOOLEAN", [True, False, None], "STRING") == ["TRUE", "FALSE", None]


def test_text_is_cut_and_padded() -> None:
    """A CHAR column would have values of other lengths than in Flink."""
    assert cast("STRING", ["abcdef", "a", None], "CHAR(3)") == ["abc", "a  ", None]
    assert cast("STRING", ["abcdef", "a"], "VARCHAR(3)") == ["abc", "a"]
    assert cast("STRING", ["ab"], "BINARY(3)") == [b"ab\0"]


def test_booleans_have_several_texts() -> None:
    """Rows of a CSV with 'yes' and 'F' would be lost."""
    assert cast("STRING", ["yes", "F", "1", "TRUE"], "BOOLEAN") == [True, False, True, True]


def test_timestamps_follow_the_sessions_zone() -> None:
    """Times would be off by the zone's offset, or by an hour where the clock is put forward."""
    gap = evaluate("CAST(CAST('2024-03-10 02:30:00' AS TIMESTAMP_LTZ(0)) AS STRING)", "America/New_York")
    assert gap == ["2024-03-10 03:30:00"]
    twice = evaluate(
        "EXTRACT(EPOCH FROM CAST('2024-11-03 01:30:00' AS TIMESTAMP_LTZ(0)))", "America/New_York"
    )  # fmt: skip
    assert twice == [1730611800]  # the earlier of the two: 05:30 UTC
    assert evaluate("CAST(CAST('2024-01-01 23:00:00' AS TIMESTAMP_LTZ(0)) AS DATE)", "Asia/Tokyo")[0].day == 1


def test_dates_are_read_leniently_and_checked() -> None:
    """2024-2-3 is a date for Flink, the 30th of February is none."""
    found = evaluate(
        "TRY_CAST(a AS DATE)", a=("STRING", ["2024-2-3", "2024", "2024-02-30", "2024-02-29 10:00:00", "x"])
    )
    assert [one and one.isoformat() for one in found] == ["2024-02-03", "2024-01-01", None, "2024-02-29", None]


def test_uniform_texts_are_read_as_single_ones() -> None:
    """The fast reading of a column would accept or cut what the slow one does not."""
    texts = ["2024-02-29 12:34:56.7891", "1969-12-31 23:59:59.9999", "0001-01-01 00:00:00.0000"]
    for target in ("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(0)"):
        together = cast("STRING", texts, target)
        assert together == [cast("STRING", [text, None], target)[0] for text in texts]
    for wrong in ("2023-02-32 12:34:56.7891", "2024-02-29T12:34:56.7891", "2024-02-29 24:34:56.7891"):
        assert evaluate("TRY_CAST(a AS TIMESTAMP(3))", a=("STRING", [texts[0], wrong]))[1] is None


def test_the_30th_of_february_is_the_last_day_of_a_timestamp() -> None:
    """Flink reads it so in timestamps, and refuses it in dates."""
    texts = ("STRING", ["2023-02-30 01:02:03", "2024-02-30 01:02:03"])
    assert [one.day for one in evaluate("CAST(a AS TIMESTAMP(3))", a=texts)] == [28, 29]
    assert evaluate("TRY_CAST(a AS DATE)", a=texts) == [None, None]


def test_nested_values_are_cast_by_element() -> None:
    """Arrays and rows would keep the old types inside, or lose their NULLs."""
    assert cast("ARRAY<INT>", [[1, None], None, []], "ARRAY<STRING>") == [["1", None], None, []]
    assert cast("MAP<STRING, INT>", [[("a", 1)], None], "MAP<STRING, BIGINT>") == [[("a", 1)], None]
    assert cast("ROW<a INT, b STRING>", [{"a": 1, "b": "x"}, None], "ROW<x BIGINT, y STRING>") == [
        {"x": 1, "y": "x"},
        None,
    ]
    assert cast("ARRAY<INT>", [[1, None], None], "STRING") == ["[1, NULL]", None]
    assert evaluate("TRY_CAST(a AS ARRAY<INT>)", a=("ARRAY<STRING>", [["1"], ["x"]])) == [[1], None]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("DATE", "INT", "Cast function cannot convert value of type DATE to type INTEGER"),
        ("INT", "TIMESTAMP(3)", "TO_TIMESTAMP"),
        ("TIMESTAMP_LTZ(3)", "BIGINT", "The cast from TIMESTAMP_LTZ type to NUMERIC type is not allowed."),
        ("ARRAY<INT>", "ROW<a INT>", "cannot convert"),
    ],
)
def test_casts_that_do_not_exist_are_refused(source: str, target: str, message: str) -> None:
    """A date would be taken for the number of its days."""
    with pytest.raises(InvalidCallError, match=message):
        cast(source, [None], target)
