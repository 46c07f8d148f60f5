"""Doubles whose equality is not that of their bits: NaN, which is not equal to itself, and zeros of both signs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tests.table.listed_tables import Change, Tables, inserts
from tests.table.table_tests import SMALL, at, need_planner

from penstock.common.errors import UserFunctionError

NAN = math.nan
ALL_KINDS = "I,UB,UA,D"


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


def left_of(changes: Sequence[Change]) -> Counter[str]:
    """Return the rows that remain, as texts."""
    found: Counter[str] = Counter()
    for kind, row in changes:
        found[repr(row)] += 1 if kind in ("+I", "+U") else -1
    return +found


CHANGES: list[Change] = [
    ("+I", (1, NAN)),
    ("+I", (1, -0.0)),
    ("+I", (1, 0.0)),
    ("-D", (1, NAN)),
    ("+I", (1, 3.0)),
    ("-D", (1, -0.0)),
    ("-U", (1, 3.0)),
    ("+U", (1, 2.0)),
]
"""What remains of key 1: 0.0 and 2.0."""


@pytest.mark.parametrize(
    ("query", "columns", "expected"),
    [
        ("SELECT t.k, t.f FROM t JOIN r ON t.k = r.k", "k INT, f DOUBLE", [(1, 0.0), (1, 2.0)]),
        (
            "SELECT k, f FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY f DESC) AS n FROM t) WHERE n <= 2",
            "k INT, f DOUBLE",
            [(1, 2.0), (1, 0.0)],
        ),
        ("SELECT k, FIRST_VALUE(f) FROM t WHERE f <> 0 OR f <> f GROUP BY k", "k INT, f DOUBLE", [(1, 2.0)]),
        ("SELECT k, COUNT(DISTINCT f), MAX(f) FROM t GROUP BY k", "k INT, c BIGINT, f DOUBLE", [(1, 2, 2.0)]),
    ],
)
def test_rows_with_nan_go_again(query: str, columns: str, expected: list[Any]) -> None:
    """A row that is looked for by its values would not be found, and stay for ever."""
    tables = Tables(circumstances=SMALL)
    tables.create("t", "k INT, f DOUBLE", CHANGES, changelog=ALL_KINDS)
    tables.create("r", "k INT", inserts([(1,)]))
    assert left_of(tables.insert("o", columns, query)) == Counter(map(repr, expected))


def test_zeros_of_both_signs_are_one_group() -> None:
    """A group's row would not be found when it goes if it came with the other sign."""
    tables = Tables(circumstances=SMALL)
    tables.create("t", "f DOUBLE, n INT", inserts([(0.0, 1), (-0.0, 2), (0.0, 3)]))
    tables.create("r", "n INT", inserts([(6,)]))
    query = "SELECT g.f, r.n FROM (SELECT f, SUM(n) AS s FROM t GROUP BY f) AS g JOIN r ON g.s >= r.n OR g.s < r.n"
    assert left_of(tables.insert("o", "f DOUBLE, n INT", query)) == Counter([repr((0.0, 6))])


def test_nan_is_no_key() -> None:
    """The row would never be found again: the job says so."""
    tables = Tables(circumstances=SMALL)
    tables.create("t", "f DOUBLE", inserts([(1.0,), (NAN,)]))
    with pytest.raises(UserFunctionError, match="NaN cannot be a key"):
        tables.insert("o", "f DOUBLE, c BIGINT", "SELECT f, COUNT(*) FROM t GROUP BY f")


def test_multisets_have_values_that_are_no_keys_of_python() -> None:
    """NaN would be counted twice, and lists and rows not at all."""
    changes: list[Change] = [("+I", (1, NAN, [1])), ("+I", (2, NAN, [1])), ("+I", (3, 1.0, [])), ("-D", (1, NAN, [1]))]
    tables = Tables(circumstances=SMALL)
    tables.create("t", "n INT, f DOUBLE, a ARRAY<INT>", changes, changelog=ALL_KINDS)
    query = "SELECT COLLECT(f), COLLECT(a), COLLECT(ROW(f, a)) FROM t"
    columns = "f MULTISET<DOUBLE>, a MULTISET<ARRAY<INT>>, r MULTISET<ROW<f DOUBLE, a ARRAY<INT>>>"
    (row,) = left_of(tables.insert("o", columns, query))
    assert row.count("1)") == 6


def test_a_table_with_a_primary_key_forgets_rows_with_nan() -> None:
    """A deleted row that is not found would come back when the row after it goes."""
    changes: list[Change] = [("+I", (1, NAN)), ("+I", (1, 2.0)), ("-D", (1, NAN)), ("-D", (1, 2.0))]
    options = {"table.exec.sink.require-on-conflict": "false", "table.exec.sink.upsert-materialize": "FORCE"}
    tables = Tables(options, circumstances=SMALL)
    tables.create("t", "k INT, f DOUBLE", changes, changelog=ALL_KINDS)
    found = tables.insert("o", "k INT PRIMARY KEY NOT ENFORCED, f DOUBLE", "SELECT k, f FROM t")
    assert found[-1] == ("-D", (1, 2.0))


@pytest.mark.parametrize(("order", "expected"), [("DESC", [NAN, 3.0]), ("ASC", [-1.0, 3.0])])
def test_nan_is_the_greatest_number_in_windows_too(order: str, expected: list[float]) -> None:
    """The first rows of windows would be others than those of a table."""
    rows = [(1, NAN, at(1)), (1, -1.0, at(2)), (1, 3.0, at(3))]
    tables = Tables(circumstances=SMALL)
    tables.create("t", "k INT, f DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", inserts(rows))
    query = f"""SELECT f FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, window_start, window_end ORDER BY f {order})
        AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE n <= 2"""
    assert left_of(tables.insert("o", "f DOUBLE", query)) == Counter(repr((one,)) for one in expected)
