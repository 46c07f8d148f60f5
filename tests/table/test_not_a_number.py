"""Doubles whose equality is not that of their bits: NaN, which is not equal to itself, and zeros of both signs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from tests.table.listed_tables import Change, Tables, inserts
from tests.table.table_tests import SMALL, at, crashing, need_planner

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


KEYED = [(0.0, 1), (-0.0, 2), (NAN, 3), (-NAN, 4), (0.0, 5), (1.5, 6)]
"""Rows of f and n. 0.0, -0.0 and NaN are three keys, as in Flink."""


@pytest.mark.parametrize(
    ("query", "columns", "expected"),
    [
        ("SELECT f, SUM(n) FROM t GROUP BY f", "f DOUBLE, n INT", [(0.0, 6), (-0.0, 2), (NAN, 7), (1.5, 6)]),
        (
            "SELECT f, n, COUNT(*) FROM (SELECT f, n / 4 AS n FROM t) GROUP BY f, n",
            "f DOUBLE, n INT, c BIGINT",
            [(0.0, 0, 1), (-0.0, 0, 1), (NAN, 0, 1), (NAN, 1, 1), (0.0, 1, 1), (1.5, 1, 1)],
        ),
        ("SELECT DISTINCT f FROM t", "f DOUBLE", [(0.0,), (-0.0,), (NAN,), (1.5,)]),
        ("SELECT DISTINCT ARRAY[f] FROM t", "f ARRAY<DOUBLE>", [([0.0],), ([-0.0],), ([NAN],), ([1.5],)]),
        ("SELECT COUNT(DISTINCT ARRAY[f]), COUNT(DISTINCT f) FROM t", "a BIGINT, f BIGINT", [(4, 4)]),
        (
            "SELECT t.f, t.n, r.m FROM t JOIN r ON t.f = r.f",
            "f DOUBLE, n INT, m INT",
            [(-0.0, 2, 20), (NAN, 3, 10), (NAN, 4, 10)],
        ),
        (
            "SELECT f, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY f ORDER BY n DESC) AS p FROM t) WHERE p = 1",
            "f DOUBLE, n INT",
            [(0.0, 5), (-0.0, 2), (NAN, 4), (1.5, 6)],
        ),
    ],
)
def test_floats_are_keys_by_their_bits(query: str, columns: str, expected: list[Any]) -> None:
    """Python would find NaN never again, and take -0.0 for 0.0: also behind a checkpoint that is restored."""
    for circumstances in (SMALL, *crashing()):
        tables = Tables(circumstances=circumstances)
        tables.create("t", "f DOUBLE, n INT", inserts(KEYED))
        tables.create("r", "f DOUBLE, m INT", inserts([(NAN, 10), (-0.0, 20), (2.5, 30)]))
        assert left_of(tables.insert("o", columns, query)) == Counter(map(repr, expected))


def test_floats_are_keys_of_windows_by_their_bits() -> None:
    """The keys of windows are kept by another piece of code, and pass two exchanges."""
    rows = [(f, n, at(n)) for f, n in KEYED]
    tables = Tables(circumstances=SMALL)
    tables.create("t", "f FLOAT, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", inserts(rows))
    query = "SELECT f, SUM(n) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY f, window_start"
    query += ", window_end"
    expected = [(0.0, 6), (-0.0, 2), (NAN, 7), (1.5, 6)]
    assert left_of(tables.insert("o", "f FLOAT, n INT", query)) == Counter(map(repr, expected))


def test_rows_of_a_primary_key_are_found_by_its_bits() -> None:
    """A row would replace, and take back, that of another key."""
    options = {"table.exec.sink.require-on-conflict": "false", "table.exec.sink.upsert-materialize": "FORCE"}
    changes: list[Change] = [*inserts(KEYED), ("-D", (0.0, 1)), ("-D", (NAN, 4)), ("-D", (0.0, 5))]
    tables = Tables(options, circumstances=SMALL)
    tables.create("t", "f DOUBLE, n INT", changes, changelog=ALL_KINDS)
    found = tables.insert("o", "f DOUBLE PRIMARY KEY NOT ENFORCED, n INT", "SELECT f, n FROM t")
    last = {repr(row[0]): (kind, row[1]) for kind, row in found}
    assert {key: change for key, change in last.items() if change[0] != "-D"} == {
        "-0.0": ("+I", 2),
        "nan": ("+U", 3),
        "1.5": ("+I", 6),
    }
    assert last["0.0"][0] == "-D"


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
