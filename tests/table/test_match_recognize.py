"""MATCH_RECOGNIZE: random patterns against plain Python, what Flink's tests say, faults, and what is refused."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.table.flink_programs import BetweenHalves
from tests.table.halves_source import HalvesSource
from tests.table.listed_tables import Change, Tables, inserts
from tests.table.row_matches import Element, Row, Statement, by_key
from tests.table.table_tests import SMALL, START, crashing, need_planner

from penstock.cep.operators.key_states import KeyStates
from penstock.common.errors import PenstockError
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.generator import NexmarkGenerator
from penstock.hosts.simulator import Circumstances
from penstock.table.planner.errors import SqlError, UnsupportedPlanError

SHARED = Path(__file__).parents[2].parent / "shared/data"
CASES = SHARED / "cep/cases.jsonl.gz"
NEXMARK = SHARED / "nexmark/queries-cep"

COLUMNS = "k STRING, p INT, d DOUBLE, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND"
RESULTS = "k STRING, f INT, l INT, s INT, c BIGINT, a DOUBLE, least INT, most INT, n BIGINT, o INT"


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


def random_rows(random: Random, count: int) -> list[Row]:
    """Rows of three keys, some late by less than the watermark, numbered in the order of their times."""
    rows = []
    for number in range(count):
        time = number * 700 + random.choice([0, 0, 300])
        p = random.choice([None, *range(6)])
        d = None if random.random() < 0.1 else random.randrange(8) / 2
        rows.append({"k": random.choice("xyz"), "p": p, "d": d, "n": number, "ms": time})
    return rows


def shuffled(random: Random, rows: Sequence[Row]) -> list[Row]:
    """The rows, each at most two seconds before or behind its place."""
    return sorted(rows, key=lambda row: row["ms"] + random.randrange(2_000))


def changes(rows: Sequence[Row]) -> list[Change]:
    return inserts(
        [(row["k"], row["p"], row["d"], row["n"], START + timedelta(milliseconds=row["ms"])) for row in rows]
    )


def random_statement(random: Random) -> Statement:
    """A pattern that Flink takes, with conditions on the row, on rows before, and on aggregates."""
    while True:
        names = "ABCD"[: random.randint(2, 4)]
        quantifiers = [
            (1, 1, True), (1, 1, True), (1, None, True), (1, None, False), (0, None, True), (0, None, False),
            (0, 1, True), (2, 2, True), (1, 3, True), (2, None, False), (1, 2, False),
        ]  # fmt: skip
        elements = [Element(name, *random.choice(quantifiers)) for name in names]
        elements[-1] = Element(names[-1], *random.choice([(1, 1, True), (1, 1, True), (2, 2, True), (1, None, False)]))
        greedy = [one.greedy and one.least != one.most and (one.least, one.most) != (0, 1) for one in elements]
        if not any(greedy[at] and elements[at + 1].least == 0 for at in range(len(elements) - 1)):
            break
    define = {}
    for place, name in enumerate(names):
        before = random.choice(names[: place + 1])
        define[name] = random.choice(
            [
                f"{name}.p > {random.randrange(4)}",
                f"{name}.p < {random.randrange(2, 6)} AND {name}.d >= 0.5",
                f"LAST({name}.p, 1) IS NULL OR {name}.p > LAST({name}.p, 1)",
                f"SUM({name}.p) < {random.randrange(4, 15)}",
                f"{name}.p >= {before}.p",
                f"AVG({name}.d) < 2.5 AND p < 5",
                f"{name}.p <> FIRST({before}.p)",
                f"p >= FIRST(p) AND COUNT(*) < {random.randrange(3, 7)}",
                f"MAX(p) - MIN(p) < {random.randrange(2, 5)}",
                f"COUNT({before}.p) > 0 AND SUM({before}.p) + {name}.p > {random.randrange(5)}",
                "LAST(p, 2) IS NULL OR p <> LAST(p, 2)",
            ]
        )
    if random.random() < 0.3:
        del define[random.choice(names)]
    first, last = names[0], names[-1]
    measures = {
        "f": f"FIRST({first}.p, 1)", "l": f"LAST({last}.p)", "s": f"SUM({first}.p * 2)", "c": "COUNT(*)",
        "a": f"AVG({last}.d)", "least": "MIN(p)", "most": f"MAX({names[1]}.p)", "n": "LAST(n)",
        "o": f"{first}.p + {names[1]}.p",
    }  # fmt: skip
    skips = ["PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW"]
    if elements[0].least and elements[-1].least:
        skips.append(f"TO LAST {last}")
    return Statement(elements, define, measures, random.choice(skips), random.choice([None, None, 5_000]))


def expected(statement: Statement, rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    """The rows of the statement, by plain Python."""
    found: Counter[tuple[Any, ...]] = Counter()
    for key, of_key in by_key(rows, "k", lambda row: (row["ms"], row["n"])).items():
        found.update((key, *result) for result in statement.results(of_key, "ms"))
    return found


def run(statement: Statement, rows: Sequence[Row], seed: int = 1, circumstances: Circumstances = SMALL) -> Tables:
    """Run a statement over rows; the sink is `o`."""
    tables = Tables(seed=seed, circumstances=circumstances)
    tables.create("t", COLUMNS, changes(rows))
    tables.insert("o", RESULTS, f"SELECT * FROM t {statement.sql('k', 'ts, n')}")
    return tables


def got(tables: Tables) -> Counter[tuple[Any, ...]]:
    return Counter(row for _, row in tables.listed.sinks.get("o", []))


def check(seed: int) -> int:
    """Compare a random statement with plain Python, and return how many matches there were."""
    random = Random(seed)
    statement, rows = random_statement(random), random_rows(random, 60)
    right = expected(statement, rows)
    tables = run(statement, shuffled(random, rows), seed)
    assert got(tables) == right, f"seed {seed}: {statement.sql('k', 'ts, n')}"
    return right.total()


def test_random_patterns() -> None:
    """Matches would begin at other rows, be longer or shorter, or have other measures."""
    assert sum(map(check, range(24))) > 150


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_many_random_patterns() -> None:
    """The same, with more seeds."""
    assert sum(map(check, range(24, 1_000))) > 5_000


RISING = Statement(
    [Element("A", 1, None), Element("B", 1, None, False), Element("C")],
    {"A": "A.p > 1 AND SUM(A.p) < 12", "B": "B.p < LAST(A.p)", "C": "C.p >= LAST(B.p, 0) AND AVG(A.d) > 0.5"},
    {"f": "FIRST(A.p)", "l": "C.p", "s": "SUM(A.p)", "c": "COUNT(*)", "a": "AVG(d)", "least": "MIN(B.p)",
     "most": "MAX(A.p)", "n": "LAST(n)", "o": "LAST(B.p)"},
    "TO NEXT ROW",
    9_000,
)  # fmt: skip


MANY = 600
"""So many rows are still on their way when the job is stopped."""


def partial_matches_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    """Snapshots lack the partial matches that have changed since the last one."""
    patch.setattr(KeyStates, "store", lambda self: None)


def partial_matches_are_not_restored(patch: pytest.MonkeyPatch) -> None:
    """A key that was stored begins again."""
    patch.setattr(KeyStates, "other", lambda self, key: None)


FOUND: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    partial_matches_are_not_stored: 48,
    partial_matches_are_not_restored: 2,
}
"""The seed that is known to find a fault. The search begins there."""


@pytest.mark.parametrize(
    "seed", [*FOUND.values(), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(200))]
)
def test_all_faults(seed: int) -> None:
    """What a crash does not show, another fault would: an aborted checkpoint, a lost message, a driver that dies."""
    rows = random_rows(Random(seed), MANY)
    circumstances = replace(
        Circumstances.draw(Random(seed)),
        exactly_once=True,
        damage_rate=0.0,
        cancel_at_step=None,
        drain_rate=0.0,
        stop_rate=0.0,
        rescale_rate=0.0,
        slots_change_at_steps=(),
    )
    tables = run(RISING, shuffled(Random(seed + 1), rows), seed, circumstances)
    assert got(tables) == expected(RISING, rows)


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FOUND)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of faults would pass an operator that loses rows, and its result would be worthless."""
    fault(monkeypatch)
    for seed in range(FOUND[fault], FOUND[fault] + 60):
        try:
            test_all_faults(seed)
        except AssertionError:
            return
    pytest.fail("all runs succeeded despite the fault")


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_savepoint_between_halves(parallelism: int) -> None:
    """A partial match would end with the job that began it, or go on in the wrong subtask."""
    rows = random_rows(Random(5), 90)
    executor = BetweenHalves(parallelism)
    HalvesSource.is_second = False
    tables = Tables(executor=executor)
    tables.create("t", COLUMNS, changes(shuffled(Random(6), rows)))
    tables.listed.halves["t"] = 47
    tables.insert("o", RESULTS, f"SELECT * FROM t {RISING.sql('k', 'ts, n')}")
    assert not executor.not_restored
    assert got(tables) == expected(RISING, rows)


def test_matches_know_their_time() -> None:
    """MATCH_ROWTIME would be no time attribute, or that of another row: windows of matches would be wrong."""
    rows = [("a", p, 0.5, n, START + timedelta(milliseconds=700 * n)) for n, p in enumerate([1, 2, 3, 1, 2, 0])]
    tables = Tables()
    tables.create("t", COLUMNS, inserts(rows))
    tables.environment.execute_sql(
        """CREATE VIEW m AS SELECT at_time, later FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES
        MATCH_ROWTIME() AS at_time, CAST(MATCH_PROCTIME() AS TIMESTAMP(3)) >= TIMESTAMP '1970-01-01 00:00:00' AS later
        PATTERN (A B) DEFINE B AS B.p > A.p)"""
    )
    found = tables.insert(
        "o",
        "s TIMESTAMP(3), c BIGINT, later BOOLEAN",
        """SELECT window_start, COUNT(*), MAX(later)
        FROM TABLE(TUMBLE(TABLE m, DESCRIPTOR(at_time), INTERVAL '1' SECOND))
        GROUP BY window_start, window_end""",
    )
    # Matches end 0.7, 1.4 and 2.8 seconds behind the start.
    assert found == inserts([(START + timedelta(seconds=second), 1, True) for second in (0, 1, 2)])


def test_processing_time() -> None:
    """Rows would match in another order than that in which they come, or all at the end."""
    rows = [("a", p, float(p), n, None) for n, p in enumerate([3, 2, 1, 5, 5, 4, 6])]
    tables = Tables(circumstances=SMALL)
    tables.create("t", "k STRING, p INT, d DOUBLE, n BIGINT, ts TIMESTAMP(3), pt AS PROCTIME()", inserts(rows))
    found = tables.insert(
        "o",
        "f BIGINT, l BIGINT, u INT",
        """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY pt MEASURES FIRST(D.n) AS f, LAST(D.n) AS l, U.p AS u
        AFTER MATCH SKIP PAST LAST ROW PATTERN (D{2,} U)
        DEFINE D AS p < LAST(D.p, 1) OR LAST(D.p, 1) IS NULL, U AS p > LAST(D.p))""",
    )
    assert found == inserts([(0, 2, 5), (4, 5, 6)])


@pytest.mark.parametrize(
    ("clauses", "error", "message"),
    [
        ("PATTERN (A B+) DEFINE A AS p = 1", UnsupportedPlanError, "the greedy B at the end of a PATTERN"),
        ("PATTERN (A+ B? C) DEFINE A AS p = 1", UnsupportedPlanError, "B is optional and behind the greedy A"),
        ("PATTERN (A* B*?) DEFINE A AS p = 1", UnsupportedPlanError, "B is optional|may match no row"),
        ("PATTERN (A?) DEFINE A AS p = 1", UnsupportedPlanError, "may match no row"),
        ("PATTERN (A?? B) DEFINE A AS p = 1", UnsupportedPlanError, r"the reluctant A\?\?"),
        ("PATTERN (A B A) DEFINE A AS p = 1", UnsupportedPlanError, "the variable A twice"),
        ("PATTERN (A (B C)+ D) DEFINE A AS p = 1", UnsupportedPlanError, "groups with a quantifier"),
        ("PATTERN ((A | B) C) DEFINE A AS p = 1", UnsupportedPlanError, "alternatives"),
        ("PATTERN (PERMUTE(A, B)) DEFINE A AS p = 1", UnsupportedPlanError, "PERMUTE"),
        ("PATTERN (A {- B -} C) DEFINE A AS p = 1", UnsupportedPlanError, "exclusions"),
        ("ALL ROWS PER MATCH PATTERN (A B) DEFINE A AS p = 1", SqlError, "All rows per match mode is not supported"),
        ("PATTERN (A B) SUBSET U = (A, B) DEFINE A AS p = 1", UnsupportedPlanError, "SUBSET is not supported"),
        ("PATTERN (A B) DEFINE B AS PREV(B.p) = 1", UnsupportedPlanError, r"PREV .*LAST\(v.c, 1\)"),
        ("PATTERN (A B) DEFINE B AS NEXT(B.p) = 1", UnsupportedPlanError, "NEXT"),
        ("PATTERN (A B) DEFINE B AS SUM(A.p + B.p) = 1", (UnsupportedPlanError, SqlError), "A.*B"),
        ("PATTERN (A B) DEFINE B AS SUM(DISTINCT A.p) = 1", (UnsupportedPlanError, SqlError), "DISTINCT"),
        ("PATTERN (A B) DEFINE B AS SUM(A.p) FILTER (WHERE A.p > 0) > 1", UnsupportedPlanError, "FILTER .* CASE"),
        ("PATTERN (A B) DEFINE B AS SUM(LAST(A.p, 1)) > 1", UnsupportedPlanError, "no FIRST, LAST or SUM in it"),
        ("PATTERN (A B) DEFINE B AS LAST(A.p, -1) > 1", UnsupportedPlanError, "must not be negative, got -1"),
        ("PATTERN (A{3,1} B) DEFINE A AS p = 1", UnsupportedPlanError, "in ascending order; got 3, 1"),
        ("PATTERN (A B) WITHIN INTERVAL '1' MONTH DEFINE A AS p = 1", UnsupportedPlanError, "days to seconds"),
    ],
)
def test_what_flink_does_not_support_is_refused(clauses: str, error: Any, message: str) -> None:
    """A pattern would match something else. The error has the part of the plan, and what to write instead."""
    tables = Tables()
    tables.create("t", COLUMNS, [])
    tables.environment.execute_sql("CREATE TABLE o (p INT) WITH ('connector' = 'listed')")
    with pytest.raises(error, match=message) as raised:
        tables.environment.execute_sql(
            f"INSERT INTO o SELECT p FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(p) AS p {clauses})"
        )
    if isinstance(raised.value, UnsupportedPlanError):
        assert "match" in str(raised.value).lower()


@pytest.mark.parametrize("order", ["n", "ts DESC", "p, ts"])
def test_rows_are_ordered_by_time(order: str) -> None:
    """Rows would be matched in the order in which they come."""
    tables = Tables()
    tables.create("t", COLUMNS, [])
    tables.environment.execute_sql("CREATE TABLE o (p INT) WITH ('connector' = 'listed')")
    with pytest.raises((UnsupportedPlanError, SqlError), match=r"time attribute|rowtime|ascending"):
        tables.environment.execute_sql(
            f"""INSERT INTO o SELECT p FROM t MATCH_RECOGNIZE (ORDER BY {order} MEASURES LAST(p) AS p
            PATTERN (A B) DEFINE A AS p = 1)"""
        )


@pytest.mark.parametrize("skip", ["TO FIRST A", "TO LAST B"])
def test_a_row_to_skip_to_that_is_not_there(skip: str) -> None:
    """The job would find the same match again and again, or another one than Flink."""
    tables = Tables()
    tables.create("t", COLUMNS, inserts([("a", p, 0.5, p, START + timedelta(seconds=p)) for p in range(4)]))
    with pytest.raises(Exception, match=rf"AFTER MATCH SKIP {skip}: a match has no row of"):
        tables.insert(
            "o",
            "p INT",
            f"""SELECT p FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(p) AS p AFTER MATCH SKIP {skip}
            PATTERN (A B? C) DEFINE A AS p = 0, B AS p = 9, C AS p = 1)""",
        )


TYPES = {"name": "STRING", "k": "STRING", "k1": "STRING", "k2": "STRING"}


def of_case(case: dict[str, Any]) -> list[list[Any]]:
    """What the statement of a recorded case gives here."""
    columns, numbers = [], case["name"] == "Sql.longest_average"
    for place, name in enumerate(case["columns"]):
        texts = any(isinstance(row[place], str) for row in case["rows"])
        kind = "TIMESTAMP(3)" if name == "t" else "STRING" if texts else "DOUBLE" if numbers else "INT"
        columns.append(f"`{name}` {kind}{'' if case['nullable'] or name == 't' else ' NOT NULL'}")
    columns.append("WATERMARK FOR t AS t - INTERVAL '1' MINUTE")
    time = case["columns"].index("t")
    rows = [
        tuple(START + timedelta(seconds=value) if place == time else value for place, value in enumerate(row))
        for row in case["rows"]
    ]
    tables = Tables(circumstances=SMALL)
    tables.create("data", ", ".join(columns), inserts(rows))
    measures = ", ".join(f"{text} AS `{name}`" for name, text in case["measures"].items())
    define = ", ".join(f"{name} AS {text}" for name, text in case["define"].items())
    parts = [
        f"PARTITION BY {case['partition_by']}" if case["partition_by"] else "",
        f"ORDER BY {case['order_by']}",
        f"MEASURES {measures}" if measures else "",
        "ONE ROW PER MATCH" if measures else "ALL ROWS PER MATCH",
        f"AFTER MATCH SKIP {case['skip']}" if case["skip"] else "",
        f"PATTERN ({case['pattern']})",
        f"WITHIN {case['within']}" if case["within"] else "",
        f"DEFINE {define}" if define else "",
    ]
    query = f"SELECT * FROM data MATCH_RECOGNIZE ({' '.join(filter(None, parts))})"
    schema = tables.environment.sql_query(query).get_resolved_schema()
    kinds = [str(one.data_type) if hasattr(one, "data_type") else str(one) for one in schema.get_column_data_types()]
    names = schema.get_column_names()
    sink = ", ".join(f"`{name}` {kind.replace(' NOT NULL', '').replace(' *ROWTIME*', '')}"
                     for name, kind in zip(names, kinds, strict=True))  # fmt: skip
    found = tables.insert("o", sink, query)
    return [
        [(value - START).total_seconds() if isinstance(value, datetime) else value for value in row] for _, row in found
    ]


def texts(words: Sequence[str], clauses: str, measure: str = "LAST(word)") -> list[Any]:
    """What a statement over rows of texts gives, one measure for each match."""
    tables = Tables(circumstances=SMALL)
    rows = [(word, START + timedelta(seconds=place)) for place, word in enumerate(words)]
    tables.create("t", "word STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", inserts(rows))
    kind = "STRING" if "word" in measure else "BIGINT"
    query = f"SELECT m FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {measure} AS m {clauses})"
    return [row[0] for _, row in tables.insert("o", f"m {kind}", query)]


def test_a_row_that_is_not_tried_does_not_fail() -> None:
    """A job would fail on values that its pattern leaves out."""
    condition = "DEFINE N AS word = 'n', V AS V.word <> 'x' AND CAST(V.word AS INT) > 1"
    assert texts(["no number", "n", "5", "n", "x", "n", "1"], f"PATTERN (N V) {condition}") == ["5"]
    with pytest.raises(PenstockError, match=r"in DEFINE V, a condition of Match\("):
        texts(["n", "no number"], f"PATTERN (N V) {condition}")


def test_statements_that_read_no_column() -> None:
    """Rows without values would be no rows."""
    assert texts(["a"] * 5, "PATTERN (A B) DEFINE A AS TRUE", "COUNT(*)") == [2] * 4
    assert texts(["a"] * 5, "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS TRUE", "1") == [1, 1]


def test_values_of_all_types_are_kept() -> None:
    """A value of a row would change while its partial match is in state."""
    columns = """d DECIMAL(10, 2), da DATE, b BYTES, l ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, y STRING>,
        f FLOAT, o BOOLEAN, t6 TIMESTAMP(6)"""
    values = (Decimal("1.10"), date(2020, 1, 1), b"x", [1, None], [("q", 1)], {"x": 1, "y": "r"}, 1.5, True)
    rows = [(*values, START + timedelta(microseconds=n), START + timedelta(seconds=n)) for n in range(120)]
    names = ["d", "da", "b", "l", "m", "r", "f", "o", "t6"]
    for circumstances in crashing():
        # All rows go to one subtask, so there are fewer steps.
        circumstances = replace(circumstances, checkpoint_at_steps=(20, 40, 60), crash_at_steps=(45, 65))
        tables = Tables(circumstances=circumstances)
        tables.create("t", f"{columns}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", inserts(rows))
        found = tables.insert(
            "o",
            columns,
            f"""SELECT {", ".join(names)} FROM t MATCH_RECOGNIZE (ORDER BY ts
            MEASURES {", ".join(f"A.{name} AS {name}" for name in names)} AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A B) DEFINE B AS B.t6 > A.t6 AND B.da >= A.da AND B.d >= A.d AND A.b = B.b AND B.m['q'] = 1)""",
        )
        assert found == inserts([row[:-1] for row in rows[::2]])
        assert tables.executor.restarts


OTHER_THAN_FLINK = {"Sql.is_null_of_not_null_column": [[19]]}
"""LAST of a row that is not there is NULL for a column that is NOT NULL, too. Flink takes `IS NULL` for false there."""


def test_statements_of_flinks_tests() -> None:
    """A statement that comes from Flink would give other rows, or give rows where Flink refuses it."""
    if not CASES.exists():
        pytest.skip("../shared/data/cep is absent: Flink's own statements can't be compared")
    with gzip.open(CASES, "rt") as lines:
        cases = [case for case in map(json.loads, lines) if case["kind"] == "sql"]
    wrong = []
    for case in cases:
        right = OTHER_THAN_FLINK.get(case["name"], case["expected"])
        try:
            found: Any = [[*map(_as_found, row)] for row in of_case(case)]
        except PenstockError:
            found = None
        if found is None or right is None:
            agree = found is right is None
        else:
            agree = Counter(map(repr, found)) == Counter(repr([*map(_as_found, row)]) for row in right)
        if not agree:
            wrong.append((case["name"], found, right))
    assert not wrong, wrong
    assert len(cases) == 45


def _as_found(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) else value


OF_NEXMARK = {
    "q0": Statement(
        [Element("S"), Element("D", 1, None), Element("U")],
        {"D": "LAST(D.price, 1) IS NULL AND D.price < S.price OR D.price < LAST(D.price, 1)",
         "U": "U.price > LAST(D.price, 1)"},
        {"s": "S.at", "b": "LAST(D.at)", "e": "LAST(U.at)"},
        "TO LAST U",
    ),
    "q1": Statement(
        [Element("A", 1, None), Element("B")],
        {"A": "AVG(A.price) < 10000"},
        {"s": "FIRST(A.at)", "e": "LAST(A.at)", "a": "AVG(A.price)"},
    ),
    "q2": Statement(
        [Element("A", 1, None), Element("B")],
        {"A": "AVG(A.price) < 10000"},
        {"s": "FIRST(A.at)", "e": "LAST(A.at)", "a": "AVG(A.price)"},
        "TO NEXT ROW",
    ),
    "q3": Statement(
        [Element("A"), Element("B", 0, None), Element("C")],
        {"B": "B.price > A.price - 50", "C": "C.price < A.price - 50"},
        {"d": "C.at", "diff": "A.price - C.price"},
        within_ms=5_000,
    ),
}  # fmt: skip
"""What the queries ask for, for plain Python."""


@pytest.mark.parametrize("name", OF_NEXMARK)
def test_queries_of_nexmark(name: str) -> None:
    """A query of a benchmark that is fast and wrong is worth nothing."""
    if not NEXMARK.exists():
        pytest.skip("../shared/data/nexmark is absent: its queries on patterns can't be run")
    count, rate = 6_000, 500
    text = (NEXMARK / f"{name}.sql").read_text()
    query = text[text.index("SELECT") :].rstrip().rstrip(";")
    columns = text[text.index("discard_sink (") + len("discard_sink (") : text.index(") WITH")]
    tables = Tables(circumstances=Circumstances(chunk_records=500, jump_rate=0.0))
    tables.environment.execute_sql(
        f"""CREATE TABLE events (event_type INT, bid ROW<auction BIGINT, bidder BIGINT, price BIGINT,
        `dateTime` TIMESTAMP(3)>, `dateTime` AS bid.`dateTime`,
        WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND) WITH ('connector' = 'nexmark',
        'events.num' = '{count}', 'first-event.rate' = '{rate}', 'next-event.rate' = '{rate}')"""
    )
    tables.environment.execute_sql(
        "CREATE VIEW bid AS SELECT bid.auction, bid.bidder, bid.price, `dateTime` FROM events WHERE event_type = 2"
    )
    found = [row for _, row in tables.insert("o", columns, query)]
    events = NexmarkGenerator(NexmarkConfiguration(event_rate=rate)).events(0, count).to_pylist()
    rows = [
        {**bid, "key": (bid["auction"], bid["bidder"]), "at": bid["dateTime"],
         "ms": round((bid["dateTime"] - START).total_seconds() * 1_000)}
        for event in events if (bid := event["bid"]) is not None
    ]  # fmt: skip
    right = [
        (*key, *(int(value) if isinstance(value, float) else value for value in result))
        for key, of_key in by_key(rows, "key", lambda row: row["ms"]).items()
        for result in OF_NEXMARK[name].results(of_key, "ms")
    ]
    assert right
    assert Counter(found) == Counter(right)
