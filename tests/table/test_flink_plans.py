"""Compiled plans of Flink's restore tests, of all versions: every node and expression is built into operators.

No planner is needed. `pytest -s` prints why plans are refused, by kind of node.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from tests.table.flink_cases import ABSENT, PLANS, cases_of
from tests.table.flink_programs import Values
from tests.table.recorded_plans import connect, tables_of

from penstock.datastream import StreamExecutionEnvironment
from penstock.service.client.plan_executor import PlanExecutor
from penstock.table.connectors.table_connector import register_connector
from penstock.table.execution.translation import Translation
from penstock.table.operators.rows.python_calls import PythonCall
from penstock.table.planner.compiled_plan import read_plan
from penstock.table.planner.errors import SqlError, UnsupportedPlanError
from penstock.table.planner.secret_options import SecretOptions

BUILT = 203
"""How many plans of streaming are built. It is raised when more are."""


def stand_in(*values: object) -> int:
    """Take any number of arguments."""
    return len(values)


FUNCTIONS = {
    name: PythonCall(name, stand_in)
    for name in [
        *("string_split", "udf3", "udf4"),
        *(f"`default_catalog`.`default_database`.`{name}`" for name in ("func1", "ndf", "udf1", "udf2", "udf5")),
    ]
}
"""Names of the functions in Java that plans call: one in Python can stand in for each."""

_OPTIONS = {"__table.exec.sort.non-temporal.enabled__": "true"}
"""Flink's own test of the node for sorts sets it."""

pytestmark = pytest.mark.skipif(not cases_of(PLANS).exists(), reason=ABSENT)


def plans() -> Iterator[dict[str, Any]]:
    """Yield the plans of streaming jobs. Their tables get the connector of the tests, which catalogs had."""
    with gzip.open(cases_of(PLANS), "rt", encoding="utf-8") as lines:
        for one in map(json.loads, lines):
            if not one["node"].startswith("batch-"):
                for node in one["plan"]["nodes"]:
                    for table in tables_of(node):
                        connect(table, {})
                yield one


def refusal(plan: dict[str, Any]) -> str | None:
    """Return why a plan is not built into operators, or None."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor)
    env.set_parallelism(2)
    try:
        read = read_plan(json.dumps(plan))
        Translation(read, env, options=_OPTIONS, secrets=SecretOptions(), functions=FUNCTIONS).run()
    except (UnsupportedPlanError, SqlError) as error:
        return str(error)
    env.execute_async()
    assert not executor.faults, executor.faults
    return None


def test_plans_of_flink_are_built_into_operators() -> None:
    """A plan of an older Flink, or one compiled elsewhere, could not be executed."""
    values = Values()
    values.sources = defaultdict(lambda: ([], []))
    register_connector("values", values)
    reasons: Counter[str] = Counter()
    built = total = 0
    for one in plans():
        why = refusal(one["plan"])
        total, built = total + 1, built + (why is None)
        if why is not None:
            assert "the node '" in why, f"{one['path']}: the message does not name the node: {why}"
            reasons[why.partition("the node '")[2].partition("'")[0]] += 1
    print(f"\n{built} of {total} plans; refused: {dict(reasons.most_common())}")
    assert built >= BUILT
