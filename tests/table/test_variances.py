"""VAR and STDDEV: of changelogs, in bundles, after failures, against exact arithmetic."""

from __future__ import annotations

import statistics
from collections import defaultdict
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from tests.table.listed_tables import Tables, inserts, table_of
from tests.table.table_tests import SMALL, crashing, need_planner

from penstock.hosts.simulator import Circumstances
from penstock.table.operators.aggregates.objects import SquaredDeviations

QUERY = """SELECT k, VAR_POP(n), VAR_SAMP(n), STDDEV_POP(n) FROM (SELECT k, id, MAX(n) AS n FROM t GROUP BY k, id)
    GROUP BY k"""
"""Its input is retracted: a larger number replaces the one before."""
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "7",
}


def expected(rows: list[tuple[str, int, float]]) -> dict[str, tuple[Any, ...]]:
    highest: dict[str, dict[int, float]] = defaultdict(dict)
    for key, id, number in rows:
        highest[key][id] = max(number, highest[key].get(id, number))
    found = {}
    for key, of in highest.items():
        values = [Fraction(one) for one in of.values()]
        population = float(statistics.pvariance(values))
        sample = float(statistics.variance(values)) if len(values) > 1 else None
        found[key] = (population, sample, population**0.5)
    return found


@pytest.mark.parametrize("options", [{}, MINI_BATCH], ids=["rows", "bundles"])
@pytest.mark.parametrize("circumstances", [SMALL, list(crashing())[1]], ids=["calm", "faults"])
def test_variances_are_exact(options: dict[str, str], circumstances: Circumstances) -> None:
    """A retraction would leave errors of rounding, a merge of bundles would lose what was retracted before its row."""
    need_planner()
    random = Random(3)
    rows = [(random.choice("abc"), random.randrange(4), random.choice([1e16, 3.5, 1e-3, 7.25])) for _ in range(60)]
    tables = Tables(options, circumstances=circumstances)
    tables.create("t", "k STRING, id INT, n DOUBLE", inserts(rows))
    found = table_of(tables.insert("o", "k STRING, v DOUBLE, s DOUBLE, d DOUBLE", QUERY))
    assert {row[0]: pytest.approx(row[1:], rel=1e-12) for row in found.elements()} == expected(rows)


def test_a_retraction_may_come_before_its_row() -> None:
    """A local aggregate sends the difference of a bundle alone."""
    sums = SquaredDeviations(None)  # type: ignore[arg-type]
    state = sums.create()
    for value, sign in ((4.0, -1), (1.0, 1), (4.0, 1), (3.0, 1)):
        state = sums.with_row(state, (value,), sign)
    assert sums.value(state) == 2.0
    assert sums.value(sums.with_row(sums.create(), (float("inf"),), 1)) != 0
    assert sums.value(sums.with_row(sums.with_row(state, (float("nan"),), 1), (float("nan"),), -1)) == 2.0
