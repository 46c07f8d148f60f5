"""The texts of values in printed tables. The expected ones are those of Flink 2.3's RowDataToStringConverter."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest

from penstock.common.types import Row
from penstock.table.logical_types import parse
from penstock.table.printed_text import printed_text_of

MINUTE = datetime.datetime(1970, 1, 1, 0, 1)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("BOOLEAN", True, "TRUE"),
        ("INT", 5, "5"),
        ("DOUBLE", 1e10, "1.0E10"),
        ("FLOAT", 1.5, "1.5"),
        ("DECIMAL(10, 2)", decimal.Decimal("12.50"), "12.50"),
        ("STRING", "hi", "hi"),
        ("DATE", datetime.date(1970, 1, 4), "1970-01-04"),
        ("TIME(0)", datetime.time(1), "01:00:00"),
        ("TIME(3)", datetime.time(1, 0, 0, 123_000), "01:00:00.123"),
        ("TIMESTAMP(0)", MINUTE, "1970-01-01 00:01:00"),
        ("TIMESTAMP(3)", MINUTE, "1970-01-01 00:01:00.000"),
        ("TIMESTAMP(6)", MINUTE.replace(microsecond=1000), "1970-01-01 00:01:00.001000"),
        ("TIMESTAMP_LTZ(3)", MINUTE.replace(tzinfo=datetime.UTC), "1970-01-01 08:01:00.000"),
        ("BYTES", bytes([1, 200]), "x'01c8'"),
        ("ARRAY<INT>", [1, None, 3], "[1, NULL, 3]"),
        ("MAP<STRING, INT>", {"k": 1}, "{k=1}"),
        ("ROW<`x` INT, `t` TIMESTAMP(3)>", Row(x=1, t=MINUTE), "(1, 1970-01-01 00:01:00.000)"),
    ],
)
def test_the_text_of_a_value(kind: str, value: Any, text: str) -> None:
    """A table would differ from Flink's: who compares them would look for a mistake in the query."""
    assert printed_text_of(parse(kind), "Asia/Shanghai")(value) == text
