"""SQL to its results: random rows through Flink's plans and our operators, against plain Python.

The planner's jars are fetched the first time. Where neither they nor Java can be had, these tests are skipped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from tests.table.listed_tables import Change, Tables, inserts, table_of

from penstock.hosts.simulator import Circumstances
from penstock.table.planner.errors import PlannerError, SqlError, UnsupportedPlanError
from penstock.table.planner.planner import shared_process

SMALL = Circumstances(chunk_records=3, buffer_records=3, channel_rows=2)
SEEDS = range(3)
START = datetime(2024, 1, 1)


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


def row(random: Random) -> tuple[Any, ...]:
    """Return a row of key, number, float, text and price."""
    return (
        random.choice(["a", "b", "c", None]),
        random.choice([None, *range(-5, 6)]),
        random.choice([None, 0.5, 1.25, -2.0]),
        random.choice([None, "x", "yy", "zzz"]),
        random.choice([None, Decimal("1.50"), Decimal("-0.25")]),
    )


ROW = "k STRING, n BIGINT, f DOUBLE, s STRING, p DECIMAL(10, 2)"


def retractions(random: Random, rows: Sequence[tuple[Any, ...]]) -> list[Change]:
    """Return a changelog: rows that come, and some that go again, perhaps because others take their place."""
    changes: list[Change] = []
    there: list[tuple[Any, ...]] = []
    for one in rows:
        chance = random.random()
        if there and chance < 0.3:
            changes.append(("-D", there.pop(random.randrange(len(there)))))
        elif there and chance < 0.5:
            changes.append(("-U", there.pop(random.randrange(len(there)))))
            changes.append(("+U", one))
            there.append(one)
            continue
        changes.append(("+I", one))
        there.append(one)
    return changes


def some(values: Sequence[Any]) -> list[Any]:
    """Return the values that are not NULL."""
    return [value for value in values if value is not None]


def aggregates_of(rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return what the query of the two tests below computes of the rows of a key."""
    numbers, prices = some([one[1] for one in rows]), some([one[4] for one in rows])
    return (
        len(rows),
        len(numbers),
        sum(numbers) if numbers else None,
        min(numbers, default=None),
        max(some([one[3] for one in rows]), default=None),
        int(sum(numbers) / len(numbers)) if numbers else None,
        len(set(numbers)),
        sum(number for number in numbers if number > 0) if any(number > 0 for number in numbers) else None,
        sum(prices) if prices else None,
    )


AGGREGATES = """COUNT(*) AS c, COUNT(n) AS cn, SUM(n) AS sn, MIN(n) AS mn, MAX(s) AS ms, AVG(n) AS an,
    COUNT(DISTINCT n) AS dn, SUM(n) FILTER (WHERE n > 0) AS fn, SUM(p) AS sp"""
RESULTS = """c BIGINT, cn BIGINT, sn BIGINT, mn BIGINT, ms STRING, an BIGINT, dn BIGINT, fn BIGINT,
    sp DECIMAL(38, 2)"""


@pytest.mark.parametrize("seed", SEEDS)
def test_each_row_of_a_group_gives_the_changes_that_flink_gives(seed: int) -> None:
    """The first row of a key gives +I, one that changes a result -U and +U, in the order of the key's rows."""
    random = Random(seed)
    rows = [row(random) for _ in range(60)]
    tables = Tables(seed=seed, circumstances=SMALL)
    tables.create("t", ROW, inserts(rows))
    found = tables.insert("o", f"k STRING, {RESULTS}", f"SELECT k, {AGGREGATES} FROM t GROUP BY k")
    expected: dict[Any, list[Change]] = defaultdict(list)
    of_key: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for one in rows:
        key = one[0]
        before = (key, *aggregates_of(of_key[key])) if of_key[key] else None
        of_key[key].append(one)
        after = (key, *aggregates_of(of_key[key]))
        expected[key] += [("+I", after)] if before is None else [("-U", before), ("+U", after)]
    by_key: dict[Any, list[Change]] = defaultdict(list)
    for change in found:
        by_key[change[1][0]].append(change)
    assert by_key == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_go_change_the_aggregates_of_their_group(seed: int) -> None:
    """Retraction gives what the remaining rows give; a group without rows is deleted."""
    random = Random(seed)
    changes = retractions(random, [row(random) for _ in range(80)])
    tables = Tables(seed=seed, circumstances=SMALL)
    tables.create("t", ROW, changes, changelog="I,UB,UA,D")
    found = tables.insert("o", f"k STRING, {RESULTS}", f"SELECT k, {AGGREGATES} FROM t GROUP BY k")
    remaining: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for one, count in table_of(changes).items():
        remaining[one[0]] += [one] * count
    assert table_of(found) == Counter((key, *aggregates_of(rows)) for key, rows in remaining.items())


def test_a_group_that_ends_and_begins_again_in_one_chunk() -> None:
    """-D when the last row of a key goes, and +I when it begins again, although all come at once."""
    tables = Tables()
    changes: list[Change] = [("+I", ("a", 1)), ("-D", ("a", 1)), ("-D", ("b", 9)), ("+I", ("a", 2)), ("+I", ("a", 3))]
    tables.create("t", "k STRING, n INT", changes, changelog="I,UB,UA,D")
    found = tables.insert("o", "k STRING, s INT", "SELECT k, SUM(n) FROM t GROUP BY k")
    assert found == [("+I", ("a", 1)), ("-D", ("a", 1)), ("+I", ("a", 2)), ("-U", ("a", 2)), ("+U", ("a", 5))]


JOINS = {
    "JOIN": lambda left, right: [(*a, *b) for a in left for b in right if matches(a, b)],
    "LEFT JOIN": lambda left, right: [
        (*a, *b) for a in left for b in ([b for b in right if matches(a, b)] or [(None, None)])
    ],
    "RIGHT JOIN": lambda left, right: [
        (*a, *b) for b in right for a in ([a for a in left if matches(a, b)] or [(None, None)])
    ],
    "FULL JOIN": lambda left, right: [
        *((*a, *b) for a in left for b in ([b for b in right if matches(a, b)] or [(None, None)])),
        *((None, None, *b) for b in right if not any(matches(a, b) for a in left)),
    ],
}


def matches(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Return whether two rows are joined: equal keys, and the first number is not larger."""
    return None not in (left[0], right[0], left[1], right[1]) and left[0] == right[0] and left[1] <= right[1]


def changes_of_pairs(random: Random) -> list[Change]:
    """Return a changelog of a key and a number."""
    rows = [(random.choice([1, 2, 3, None]), random.choice([None, *range(4)])) for _ in range(30)]
    return retractions(random, rows)


@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("seed", SEEDS)
def test_joins_of_changelogs(kind: str, seed: int) -> None:
    """All kinds of joins, with rows that come and go on both sides, in any order of the two."""
    random = Random(seed)
    left, right = changes_of_pairs(random), changes_of_pairs(random)
    tables = Tables(seed=seed, circumstances=SMALL)
    tables.create("l", "k BIGINT, n INT", left, changelog="I,UB,UA,D")
    tables.create("r", "k BIGINT, n INT", right, changelog="I,UB,UA,D")
    found = tables.insert(
        "o", "a BIGINT, b INT, c BIGINT, d INT", f"SELECT * FROM l {kind} r ON l.k = r.k AND l.n <= r.n"
    )
    expected = JOINS[kind]([*table_of(left).elements()], [*table_of(right).elements()])
    assert table_of(found) == Counter(expected)


@pytest.mark.parametrize("word", ["IN", "NOT IN"])
@pytest.mark.parametrize("seed", SEEDS)
def test_semi_and_anti_joins_of_changelogs(word: str, seed: int) -> None:
    """A row is there as long as another side has, or has not, a row for it."""
    random = Random(seed)
    left, right = changes_of_pairs(random), changes_of_pairs(random)
    tables = Tables(seed=seed, circumstances=SMALL)
    tables.create("l", "k BIGINT, n INT", left, changelog="I,UB,UA,D")
    tables.create("r", "k BIGINT, n INT", right, changelog="I,UB,UA,D")
    exists = "EXISTS" if word == "IN" else "NOT EXISTS"
    query = f"SELECT * FROM l WHERE {exists} (SELECT * FROM r WHERE l.k = r.k AND l.n <= r.n)"
    found = tables.insert("o", "a BIGINT, b INT", query)
    rows = [*table_of(right).elements()]
    expected = [a for a in table_of(left).elements() if any(matches(a, b) for b in rows) is (word == "IN")]
    assert table_of(found) == Counter(expected)


def moments(random: Random, count: int) -> list[tuple[Any, ...]]:
    """Return rows of key, number and time, mostly in the order of time."""
    return [
        (random.choice("ab"), random.randrange(100), START + timedelta(seconds=place + random.randrange(-2, 3)))
        for place in range(count)
    ]


TIMED = "k STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
WINDOWS = {
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)": lambda at: [(at // 10 * 10, at // 10 * 10 + 10)],
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND)": lambda at: [
        (start, start + 10) for start in range((at - 10) // 4 * 4 + 4, at + 1, 4)
    ],
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)": lambda at: [
        (at // 15 * 15, end) for end in range(at // 5 * 5 + 5, at // 15 * 15 + 16, 5)
    ],
}


@pytest.mark.parametrize("function", WINDOWS)
@pytest.mark.parametrize("phases", ["ONE_PHASE", "TWO_PHASE"])
@pytest.mark.parametrize("seed", SEEDS)
def test_windows_have_the_rows_of_their_time(function: str, phases: str, seed: int) -> None:
    """Each window gives one row for each key that has rows, with bounds, sums, distinct counts and extremes."""
    rows = moments(Random(seed), 80)
    tables = Tables({"table.optimizer.agg-phase-strategy": phases}, seed=seed, circumstances=SMALL)
    tables.create("t", TIMED, inserts(rows))
    query = f"""SELECT k, window_start, window_end, COUNT(*), SUM(n), COUNT(DISTINCT n), MIN(ts), MAX(n)
        FROM TABLE({function}) GROUP BY k, window_start, window_end"""
    columns = "k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, s INT, d BIGINT, m TIMESTAMP(3), x INT"
    found = tables.insert("o", columns, query)
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for one in rows:
        at = int((one[2] - START).total_seconds())
        for start, end in WINDOWS[function](at):
            groups[(one[0], START + timedelta(seconds=start), START + timedelta(seconds=end))].append(one)
    expected = [
        (*key, len(of), sum(numbers), len(set(numbers)), min(one[2] for one in of), max(numbers))
        for key, of in groups.items()
        for numbers in [[one[1] for one in of]]
    ]
    assert Counter(found) == Counter(inserts(expected))


def test_rows_behind_the_watermark_are_left_out_of_windows() -> None:
    """A row whose windows have ended counts nowhere, even if it comes in the chunk of the row that ended them."""
    rows = [("a", 1, START), ("a", 2, START + timedelta(seconds=60)), ("a", 4, START + timedelta(seconds=1))]
    tables = Tables()
    tables.create("t", TIMED, inserts(rows))
    query = """SELECT SUM(n) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end"""
    assert Counter(tables.insert("o", "s INT", query)) == Counter(inserts([(1,), (2,)]))


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_rows_of_each_key(numbered: bool, seed: int) -> None:
    """Top N of a changelog has the rows that sorting gives, with their numbers; also if one that was there goes."""
    random = Random(seed)
    rows = [(random.choice("ab"), random.randrange(30), number) for number in range(50)]
    changes = retractions(random, rows)
    tables = Tables(seed=seed, circumstances=SMALL)
    tables.create("t", "k STRING, n INT, id INT", changes, changelog="I,UB,UA,D")
    number = ", r" if numbered else ""
    query = f"""SELECT k, n, id{number} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC, id) AS r
        FROM t) WHERE r <= 3"""
    found = tables.insert("o", f"k STRING, n INT, id INT{', r BIGINT' if numbered else ''}", query)
    expected: list[tuple[Any, ...]] = []
    for key in "ab":
        ordered = sorted((one for one in table_of(changes) if one[0] == key), key=lambda one: (-one[1], one[2]))
        expected += [(*one, place + 1) if numbered else one for place, one in enumerate(ordered[:3])]
    assert table_of(found) == Counter(expected)


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_the_first_or_the_last_row_by_event_time(order: str) -> None:
    """Of each key the row with the lowest or the highest time remains, whenever it comes."""
    rows = [(key, number, at) for key, number, at in moments(Random(3), 60)]
    tables = Tables({"table.exec.deduplicate.insert-update-after-sensitive-enabled": "true"}, circumstances=SMALL)
    tables.create("t", TIMED, inserts(rows))
    query = f"""SELECT k, n, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts {order}) AS r FROM t)
        WHERE r = 1"""
    found = table_of(tables.insert("o", "k STRING, n INT, ts TIMESTAMP(3)", query))
    best = min if order == "ASC" else max
    assert {one[0]: one[2] for one in found} == {key: best(at for k, _, at in rows if k == key) for key in "ab"}


def crashing() -> Iterator[Circumstances]:
    """Yield circumstances with checkpoints, and workers that are killed behind them; with state on the heap and not."""
    for steps, entries in (((60, 120, 180), None), ((90, 200, 310), None), ((90, 200, 310), 3)):
        yield Circumstances(
            chunk_records=3,
            buffer_records=3,
            channel_rows=2,
            checkpoint_at_steps=steps,
            crash_at_steps=(steps[0] + 70, steps[1] + 70),
            cached_entries=entries,
        )


@pytest.mark.parametrize("circumstances", [*crashing()])
@pytest.mark.parametrize("seed", SEEDS)
def test_state_continues_after_a_failure(circumstances: Circumstances, seed: int) -> None:
    """A join, an aggregate with retraction and a top N give the same table if workers are killed on the way."""
    random = Random(seed)
    left, right = changes_of_pairs(random), changes_of_pairs(random)
    query = """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY s DESC, k) AS r FROM
        (SELECT l.k, COUNT(*) AS c, SUM(r.n) AS s FROM l LEFT JOIN r ON l.k = r.k GROUP BY l.k)) WHERE r <= 2"""
    columns = "k BIGINT, c BIGINT, s INT, r BIGINT"
    tables_of = []
    for one in (SMALL, circumstances):
        tables = Tables(seed=seed, circumstances=one)
        tables.create("l", "k BIGINT, n INT", left, changelog="I,UB,UA,D")
        tables.create("r", "k BIGINT, n INT", right, changelog="I,UB,UA,D")
        tables_of.append(table_of(tables.insert("o", columns, query)))
        assert bool(tables.executor.restarts) is (one is circumstances)
    assert tables_of[0] == tables_of[1]


@pytest.mark.parametrize("circumstances", [*crashing()])
def test_windows_continue_after_a_failure(circumstances: Circumstances) -> None:
    """Windows of slices, and rows of windows that wait for their end, give each result once if workers are killed."""
    query = """SELECT k, n, window_end, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end
        ORDER BY n DESC, k) AS r FROM (SELECT k, SUM(n) AS n, window_start, window_end FROM
        TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '12' SECOND))
        GROUP BY k, window_start, window_end)) WHERE r <= 1"""
    found = []
    for one in (SMALL, circumstances):
        tables = Tables(circumstances=one)
        tables.create("t", TIMED, inserts(moments(Random(5), 80)))
        found.append(Counter(tables.insert("o", "k STRING, n INT, e TIMESTAMP(3), r BIGINT", query)))
        assert bool(tables.executor.restarts) is (one is circumstances)
    assert found[0] == found[1]


def test_what_is_not_supported_is_refused_with_node_and_query() -> None:
    """A user sees which part of the query can't be executed, before anything runs."""
    tables = Tables()
    tables.create("t", "k STRING, n INT, p AS PROCTIME()", [])
    with pytest.raises(UnsupportedPlanError, match=r"over-aggregate.*SUM.*can't be executed"):
        tables.insert("o", "s INT", "SELECT SUM(n) OVER (PARTITION BY k ORDER BY p) FROM t")
    with pytest.raises(SqlError, match=r"(?s)n_o_such.*line 1"):
        tables.environment.execute_sql("SELECT n_o_such FROM t")


def test_a_null_in_a_column_that_is_not_null() -> None:
    """The error names column and row; with DROP the row is left out."""
    rows = inserts([(1,), (None,), (2,)])
    tables = Tables()
    tables.create("t", "n INT", rows)
    with pytest.raises(Exception, match="Column 'n' is NOT NULL"):
        tables.insert("o", "n INT NOT NULL", "SELECT n FROM t")
    tables = Tables({"table.exec.sink.not-null-enforcer": "DROP"})
    tables.create("t", "n INT", rows)
    assert tables.insert("o", "n INT NOT NULL", "SELECT n FROM t") == inserts([(1,), (2,)])


def test_rows_of_a_query_are_collected_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """collect() gives Rows with kinds, print() Flink's table."""
    environment = Tables().environment
    query = "SELECT s, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS t(s) GROUP BY s"
    with environment.execute_sql(query).collect() as rows:
        found = [(str(one.get_row_kind()), tuple(one)) for one in rows]
    assert sorted(found) == [("+I", ("a", 1)), ("+I", ("b", 1)), ("+U", ("a", 2)), ("-U", ("a", 1))]
    environment.execute_sql("SELECT 1 AS uno, CAST(NULL AS STRING) AS nothing").print()
    assert capsys.readouterr().out == (
        "+----+-------------+--------------------------------+\n"
        "| op |         uno |                        nothing |\n"
        "+----+-------------+--------------------------------+\n"
        "| +I |           1 |                         <NULL> |\n"
        "+----+-------------+--------------------------------+\n"
        "1 row in set\n"
    )
