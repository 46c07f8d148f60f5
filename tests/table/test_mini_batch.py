"""GROUP BY in two phases, mini-batch, split DISTINCT, GROUPING SETS and time to live, against plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import product
from random import Random
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.table.flink_programs import run
from tests.table.in_process import InProcess
from tests.table.listed_tables import Change, Tables, inserts, table_of
from tests.table.test_execution import (
    AGGREGATES,
    RESULTS,
    ROW,
    SMALL,
    aggregates_of,
    planner,  # noqa: F401
    retractions,
    row,
    some,
)

from penstock.common.configuration.options import BUFFER_TIMEOUT
from penstock.common.job_client import JobClient
from penstock.datastream import StreamExecutionEnvironment
from penstock.hosts.simulator import Circumstances
from penstock.service.client.executor import Submission
from penstock.table import StreamTableEnvironment
from penstock.table.planner.errors import UnsupportedPlanError

ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
SPLIT = {"table.optimizer.distinct-agg.split.enabled": "true"}
EXPANDED = {**SPLIT, "table.optimizer.incremental-agg-enabled": "false"}
FORMS: dict[str, dict[str, str]] = {"one phase": ONE_PHASE, "two phases": {}, "split": SPLIT, "expanded": EXPANDED}
"""How the planner may divide an aggregate that has a DISTINCT."""


def mini_batch(size: int, form: str = "two phases") -> dict[str, str]:
    """Return the options of mini-batch."""
    return {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "10 s",
        "table.exec.mini-batch.size": str(size),
        **FORMS[form],
    }


def grouped(
    options: dict[str, str], changes: Sequence[Change], *, seed: int = 0, circumstances: Circumstances = SMALL
) -> tuple[list[Change], Tables]:
    """Run the query of the tests below over a changelog."""
    tables = Tables(options, seed=seed, circumstances=circumstances)
    tables.create("t", ROW, changes, changelog="I,UB,UA,D")
    return tables.insert("o", f"k STRING, {RESULTS}", f"SELECT k, {AGGREGATES} FROM t GROUP BY k"), tables


def expected_of(changes: Sequence[Change]) -> Counter[tuple[Any, ...]]:
    """Return the table that the query gives."""
    remaining: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for one, count in table_of(changes).items():
        remaining[one[0]] += [one] * count
    return Counter((key, *aggregates_of(rows)) for key, rows in remaining.items())


SIZES = (1000, 1, 7)
IN_TURN = [(form, SIZES[(place + turn) % 3]) for turn in range(3) for place, form in enumerate(FORMS)]


@pytest.mark.parametrize(("form", "size"), first_of(len(FORMS) + 1, IN_TURN))
def test_bundles_of_rows_that_come_and_go_give_the_same_table(form: str, size: int) -> None:
    """However the planner divides the work, and wherever bundles end, the table is that of the rows that remain."""
    random = Random(size)
    changes = retractions(random, [row(random) for _ in range(70)])
    found, _ = grouped(mini_batch(size, form), changes, seed=size)
    assert table_of(found) == expected_of(changes)


@pytest.mark.parametrize("size", [1, 5, 16])
def test_each_key_gives_one_change_per_bundle(size: int) -> None:
    """A bundle ends with its last row: a key that has several rows in it changes once, and only if its result does."""
    random = Random(size)
    rows = [(random.choice("abc"), random.choice([0, 0, 1])) for _ in range(80)]
    tables = Tables(mini_batch(size, "one phase"), parallelism=1, circumstances=SMALL)
    tables.create("t", "k STRING, n INT", inserts(rows))
    found = tables.insert("o", "k STRING, s INT", "SELECT k, SUM(n) FROM t GROUP BY k")
    sums: dict[str, int] = {}
    expected: Counter[Change] = Counter()
    for start in range(0, len(rows), size):
        before = dict(sums)
        for key, number in rows[start : start + size]:
            sums[key] = sums.get(key, 0) + number
        for key, now in sums.items():
            if key not in before:
                expected[("+I", (key, now))] += 1
            elif before[key] != now:
                expected.update([("-U", (key, before[key])), ("+U", (key, now))])
    assert Counter(found) == expected


def test_options_are_read_in_any_case() -> None:
    """Flink's planner takes TRUE for true: an operator that did not would emit the changes of each row."""
    tables = Tables({**mini_batch(100, "one phase"), "table.exec.mini-batch.enabled": "TRUE"}, parallelism=1)
    tables.create("t", "k STRING, n INT", inserts([("a", 1), ("a", 2), ("a", 3)]))
    assert tables.insert("o", "k STRING, s INT", "SELECT k, SUM(n) FROM t GROUP BY k") == [("+I", ("a", 6))]


def test_a_bundle_that_is_not_full_ends_in_time() -> None:
    """Rows do not wait for others that may never come: the assigner's interval, and the end, end the bundle."""
    program = of_halves(["+I[1]", "+I[2]"], ["+I[5]"], mini_batch(1000), ["+I[3]", "-U[3]", "+U[8]"])
    outcome = run(program)
    assert outcome.is_exact, outcome.error or outcome.difference


def failing(entries: int | None) -> Circumstances:
    """Return circumstances in which workers are killed behind checkpoints. `entries`: in memory; None: on the heap."""
    return replace(
        SMALL,
        checkpoint_at_steps=tuple(range(5, 2000, 15)),
        crash_rate=0.4,
        rescale_rate=0.3,
        retained=2,
        cached_entries=entries,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entries", [None, 3])
def test_bundles_continue_after_a_failure(form: str, entries: int | None) -> None:
    """A bundle ends before a barrier, so that no row of it is lost or counted twice if workers are killed."""
    random = Random(3)
    changes = retractions(random, [row(random) for _ in range(250)])
    found, tables = grouped(mini_batch(60, form), changes, seed=1, circumstances=failing(entries))
    assert tables.executor.restarts
    assert table_of(found) == expected_of(changes)


@pytest.mark.parametrize("options", [{}, mini_batch(9)])
def test_a_cube_has_the_groups_of_all_subsets_of_its_columns(options: dict[str, str]) -> None:
    """CUBE counts each row in each of its groups; GROUPING_ID tells a NULL of the data from a column left out."""
    random = Random(1)
    rows = [row(random) for _ in range(60)]
    tables = Tables(options, circumstances=SMALL)
    tables.create("t", ROW, inserts(rows))
    columns = "k STRING, s STRING, g BIGINT, c BIGINT, sn BIGINT, a DECIMAL(38, 6)"
    query = "SELECT k, s, GROUPING_ID(k, s), COUNT(*), SUM(n), AVG(p) FROM t GROUP BY CUBE(k, s)"
    found = tables.insert("o", columns, query)
    groups: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for one in rows:
        for without_key, without_text in product((0, 1), repeat=2):
            key = (None if without_key else one[0], None if without_text else one[3], 2 * without_key + without_text)
            groups[key].append(one)
    expected = []
    for key, of in groups.items():
        numbers, prices = some([one[1] for one in of]), some([one[4] for one in of])
        average = (sum(prices) / len(prices)).quantize(Decimal("0.000001"), ROUND_HALF_UP) if prices else None
        expected.append((*key, len(of), sum(numbers) if numbers else None, average))
    assert table_of(found) == Counter(expected)


def of_halves(before: list[str], after: list[str], options: dict[str, str], expected: list[str]) -> dict[str, Any]:
    """Return a program that sums one column of rows in two halves, 20 seconds apart."""
    return {
        "setup": [
            *({"kind": "CONFIG", "option": key, "value": value} for key, value in options.items()),
            {
                "kind": "SOURCE_WITH_DATA",
                "name": "t",
                "schema": ["n INT"],
                "partition": [],
                "options": {},
                "before": before,
                "after": after,
            },
            {
                "kind": "SINK_WITH_DATA",
                "name": "o",
                "schema": ["s INT"],
                "partition": [],
                "options": {"sink-changelog-mode-enforced": "I,UB,UA,D"},
                "expectBefore": expected,
                "expectAfter": [],
            },
        ],
        "run": [{"kind": "SQL", "sql": "INSERT INTO o SELECT SUM(n) FROM t"}],
    }


@pytest.mark.parametrize("options", [{}, mini_batch(1, "one phase"), mini_batch(1)])
def test_a_key_that_has_expired_begins_again(options: dict[str, str]) -> None:
    """With a time to live a result that is the same is given again, and a key without a row for that long is new."""
    ttl = {**options, "table.exec.state.ttl": "10 s"}
    program = of_halves(["+I[1]", "+I[0]"], ["+I[5]"], ttl, ["+I[1]", "-U[1]", "+U[1]", "+I[5]"])
    outcome = run(program, parallelism=1)
    assert outcome.is_exact, outcome.error or outcome.difference


def test_a_mini_batch_without_a_size_is_refused() -> None:
    """The error names the option that is missing."""
    tables = Tables({"table.exec.mini-batch.enabled": "true", "table.exec.mini-batch.allow-latency": "1 s"})
    tables.create("t", "k STRING, n INT")
    with pytest.raises(UnsupportedPlanError, match=r"set table\.exec\.mini-batch\.size to a number above 0"):
        tables.insert("o", "k STRING, s INT", "SELECT k, SUM(n) FROM t GROUP BY k")


class Configured(InProcess):
    """Keeps the timeout of buffers of each job."""

    def __init__(self) -> None:
        super().__init__()
        self.timeouts: list[int] = []

    def execute(self, submission: Submission) -> JobClient:
        """Run a job."""
        self.timeouts.append(submission.configuration.get(BUFFER_TIMEOUT))
        return super().execute(submission)


def test_buffers_of_statements_wait_longer_and_with_mini_batch_as_long_as_rows_may() -> None:
    """A join would get few rows at a time, and take twice the CPU time."""
    executor = Configured()
    env = StreamExecutionEnvironment(executor=executor)
    tables = StreamTableEnvironment.create(env)

    def timeout_with(**options: str) -> int:
        for name, value in options.items():
            tables.get_config().set(f"table.exec.mini-batch.{name.replace('_', '-')}", value)
        tables.execute_sql("SELECT k, COUNT(*) FROM (VALUES (1), (2)) AS t (k) GROUP BY k").collect().close()
        return executor.timeouts[-1]

    assert timeout_with() == 20
    assert timeout_with(enabled="true", allow_latency="2 s", size="100") == 100
    assert timeout_with(allow_latency="30 ms") == 30
    assert timeout_with(allow_latency="1 ms") == 5
    assert timeout_with(enabled="false", allow_latency="2 s") == 20
    env.set_buffer_timeout(7)
    assert timeout_with(enabled="true") == 7
