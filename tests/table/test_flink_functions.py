"""Flink's cases of its functions as queries: planned by its planner, and evaluated from the plan.

`tests/unit/table/test_flink_function_cases.py` evaluates their text. Here calls look as they do in plans: with other
operands, with types that were converted, and with what the planner has computed already.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from tests.table.table_tests import need_planner
from tests.unit.table.java_values import column_of, field_texts, split, types_of
from tests.unit.table.sql_evaluation import Typed
from tests.unit.table.test_flink_function_cases import (
    ABSENT,
    CASES,
    ROWS,
    USER_FUNCTIONS,
    ZONES,
    Case,
    cases,
    combinations,
    shown_as,
)

from penstock.table.functions.registry import Context
from penstock.table.logical_types import LogicalType, parse
from penstock.table.planner.expressions import Expressions
from penstock.table.planner.nodes.row_nodes import Calc
from penstock.table.planner.planner import Planner

pytestmark = [pytest.mark.soak, pytest.mark.skipif(not CASES.exists(), reason=ABSENT)]

RESULTS_THAT_AGREE = 975
ERRORS_THAT_AGREE = 364

NOT_HERE = ("the case does not have", "keyword 'INTERVAL'", "key of a map is NULL")
"""Values that Java shows by their address; columns of intervals, which no table has; what Arrow does not have."""


@cache
def planner(zone: str, columns: str) -> Planner:
    """Return an environment with a table of these columns."""
    found = Planner({"table.local-time-zone": zone})
    found.execute(f"CREATE TABLE t ({columns or 'x INT'}) WITH ('connector' = 'any')")
    return found


def fields_of(case: Case) -> dict[str, tuple[str, LogicalType]]:
    """Return the values and types of the fields that a case reads, by name."""
    if not case.group["fields"]:
        return {}
    types = types_of(case.group["fieldTypes"], case.group["fields"])
    values = field_texts(case.group["fields"], tuple(types))
    named = {f"f{place}": one for place, one in enumerate(zip(values, types, strict=True))}
    return {name: one for name, one in named.items() if re.search(rf"\b{name}\b", case.expression)}


def evaluated(case: Case) -> list[Typed]:
    """Return the result, as a query gives it. Raises what the planner or the evaluation does."""
    zone = ZONES.get(case.group["class"], "UTC")
    fields = fields_of(case)
    columns = ", ".join(f"{name} {kind}" for name, (_, kind) in fields.items())
    plan = planner(zone, columns).execute(f"SELECT {case.expression} FROM t").plan
    assert plan is not None
    (calc,) = [node for node in plan.nodes.values() if isinstance(node, Calc)]
    (origin,) = plan.inputs_of(calc)
    given: list[Any] = []
    for name in origin.output_type.names:
        value = column_of(*fields[name], zone) if name in fields else None
        given.append(pa.array([value.as_py()] * ROWS, value.type) if isinstance(value, pa.Scalar) else value)
    found = Expressions(calc.projection).evaluate(given, Context(rows=ROWS, zone=zone))
    return [Typed(column, kind) for column, kind in zip(found, calc.output_type.fields, strict=True)]


def failure_of(case: Case) -> str | None:
    """Return why a case does not agree, or None."""
    try:
        difference = difference_of(case)
    except Exception as error:
        return None if case.fails and (case.error or "") in str(error) else f"{type(error).__name__}: {error}"
    return "no error" if case.fails else difference


def difference_of(case: Case) -> str | None:
    """Return what is different in the results of a case, or None. Raises what the planner or the evaluation does."""
    results = evaluated(case)
    wanted = [parse(one.removeprefix("[").removesuffix("]")) for one in split((case.types or "")[1:-1])]
    if [one.type.root for one in results] != [one.root for one in wanted]:
        return f"types {[str(one.type) for one in results]}"
    shown = [shown_as(one) for one in results]
    agrees = (case.results or "") in (f"[{', '.join(parts)}]" for parts in combinations(shown))
    return None if agrees else f"values {shown}"


@pytest.mark.timeout(900)
def test_flinks_cases_of_functions_agree_as_queries() -> None:
    """A function that is right by itself may be called in another way by a plan: a query would give other values."""
    need_planner()
    counts: Counter[tuple[bool, bool]] = Counter()
    different = []
    for case in cases():
        if any(name in case.expression for name in USER_FUNCTIONS) or case.family == "RandFunction":
            continue
        failure = failure_of(case)
        counts[case.fails, failure is None] += 1
        if failure is not None and not any(text in failure for text in NOT_HERE):
            different.append(f"{case.family}: {case.expression[:80]}: {failure[:120]}")
    print(f"\nas queries: {counts[False, True]} results, {counts[True, True]} errors agree; not: {different}")
    assert counts[False, True] >= RESULTS_THAT_AGREE
    assert counts[True, True] >= ERRORS_THAT_AGREE
