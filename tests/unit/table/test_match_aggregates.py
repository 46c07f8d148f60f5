"""Aggregates over the rows of a match: the same as those of GROUP BY over the same values, after each row."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.engine.runtime.columns.runs import Runs
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import parse
from penstock.table.operators.aggregates.base import RunRows
from penstock.table.operators.aggregates.choice import aggregate_of
from penstock.table.operators.matching.match_aggregates import match_aggregate
from penstock.table.planner.data_types import DataType
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall

CASES = [
    ("COUNT", "INT", "BIGINT", [None, 1, 2]),
    ("SUM", "INT", "INT", [None, 2**31 - 1, -5, 2**30]),
    ("SUM", "BIGINT", "BIGINT", [None, 2**63 - 1, 2**62, 7]),
    ("SUM", "DOUBLE", "DOUBLE", [None, 0.1, 1e17, -1e17, float("nan")]),
    ("SUM", "FLOAT", "FLOAT", [None, 0.5, 3e7, 1.25]),
    ("SUM", "DECIMAL(10, 2)", "DECIMAL(38, 2)", [None, Decimal("99999999.99"), Decimal("-0.01")]),
    (
        "SUM",
        "DECIMAL(38, 2)",
        "DECIMAL(38, 2)",
        [None, Decimal("900000000000000000000000000000000000.00"), Decimal("-0.01")],
    ),
    ("MIN", "INT", "INT", [None, 3, 1, 2]),
    ("MAX", "STRING", "STRING", [None, "a", "b", "ß"]),
    ("MAX", "DECIMAL(10, 2)", "DECIMAL(10, 2)", [None, Decimal("1.50"), Decimal("-2.00")]),
    ("FIRST_VALUE", "STRING", "STRING", [None, "a", "b"]),
    ("LAST_VALUE", "STRING", "STRING", [None, "a", "b"]),
    ("LISTAGG", "STRING", "STRING", [None, "a", ""]),
]


@pytest.mark.parametrize(("name", "argument", "result", "values"), CASES)
def test_aggregates_are_those_of_groups(name: str, argument: str, result: str, values: list[Any]) -> None:
    """The sum of a match would differ from the sum of its rows."""
    random = Random(name + argument)
    types = parse(argument), parse(result)
    call = AggregateCall(name=None, type=DataType(types[1]), arg_list=(0,), internal_name=f"${name}$1")
    for _ in range(20):
        rows = random.choices(values, k=9)
        column = pyarrow.array(rows, arrow_type(types[0]))
        of_groups = aggregate_of(call, [types[0]], False)
        signs = column.is_valid().to_numpy(zero_copy_only=False).astype(numpy.int64)
        right = of_groups.run(RunRows(Runs(numpy.zeros(9, numpy.int64)), [column], signs)).to_pylist()
        aggregate = match_aggregate(name, [0], [types[0]], types[1])
        assert aggregate is not None
        state, found = aggregate.zero, []
        for row in rows:
            state = aggregate.add(state, (row,))
            found.append(aggregate.value(state))
        assert repr(found) == repr(right), rows


def test_a_sum_of_another_type_is_refused() -> None:
    """It would fail with the first row."""
    with pytest.raises(UnsupportedPlanError, match="SUM of STRING"):
        match_aggregate("SUM", [0], [parse("STRING")], parse("DOUBLE"))
