"""SQL programs for the simulator: between them they have all operators of `penstock.table.operators`.

Rows are drawn from a fixed seed. No row is late, and no result depends on the order of rows with different keys or on
processing time, so each run gives the same table.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

from tests.table.listed_tables import Change, Listed, inserts
from tests.table.table_tests import at

from penstock.common.types import Row, RowKind
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator.sinks import RecordingSink
from penstock.service.client.plan_executor import PlanExecutor
from penstock.table import StreamTableEnvironment
from penstock.table.connectors.table_connector import (
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
    register_connector,
)

TIMED = "k STRING, n INT, id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
PAIRS = "k STRING, n INT, id INT"
ALL_KINDS = "I,UB,UA,D"
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "7",
}
ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
TWO_PHASE = {"table.optimizer.agg-phase-strategy": "TWO_PHASE"}
SPLIT = {"table.optimizer.distinct-agg.split.enabled": "true"}
TTL_S = 15
"""Shorter than the pause."""
CITIES = [(1, "Bern", 10), (2, "Basel", 20), (2, "Biel", 30), (3, None, 5)]


class TableSpec(NamedTuple):
    """A table with its changes. `changelog`: the kinds that it may have. `options`: more, each behind a comma."""

    columns: str
    changes: Sequence[Change]
    changelog: str = "I"
    options: str = ""


class SqlProgram(NamedTuple):
    """Tables, and a query whose rows go into a table with the columns `sink`.

    `operators`: names of the classes that it is here for. `is_ordered`: whether the order of its rows is compared.
    `is_keyed`: whether a row replaces the one with the same first column, as no -U says which one goes.
    """

    operators: tuple[str, ...]
    tables: Mapping[str, TableSpec]
    query: str
    sink: str
    options: Mapping[str, str] = {}
    sink_options: str = "'connector' = 'listed'"
    is_ordered: bool = False
    is_keyed: bool = False
    compared: int | None = None
    """How many of the first columns are compared, if the others depend on the order of rows; None: all."""
    build: Callable[[StreamExecutionEnvironment, StreamTableEnvironment], None] | None = None
    """Writes the program where it is not an insertion."""


class _Tables(Listed):
    """Listed tables. Splits of `by_split` have watermarks of their own."""

    def scan(self, request: ScanRequest) -> TableScan:
        found = super().scan(request)
        by_split = request.options.get("changelog-mode") == "I" and "by_split" in request.table.identifier
        return dataclasses.replace(found, watermarks_by_split=by_split)


class _Recorded(TableConnector):
    """Writes rows, with their kinds, by commits."""

    def sink(self, request: SinkRequest) -> TableSink:
        return TableSink(RecordingSink("recorded"), takes_kinds=True, parallelism=1)


@cache
def graph_of(name: str, parallelism: int, *, in_halves: bool = False, ttl_s: int = TTL_S) -> JobGraph:
    """Return the job of a program.

    `in_halves`: with a pause of 20 s behind the first half of the rows of each table. `ttl_s`: the time to live of the
    state of those that expire.
    """
    program, listed, planned = {**PROGRAMS, **EXPIRING}[name], _Tables(), PlanExecutor()
    register_connector("listed", listed)
    register_connector("recorded", _Recorded())
    env = StreamExecutionEnvironment(executor=planned)
    env.set_parallelism(parallelism)
    tables = StreamTableEnvironment.create(env)
    ttl = {"table.exec.state.ttl": f"{ttl_s} s"} if name in EXPIRING else {}
    for key, value in {**program.options, **ttl}.items():
        tables.get_config().set(key, value)
    for table, spec in program.tables.items():
        options = f"'connector' = 'listed', 'changelog-mode' = '{spec.changelog}'{spec.options}"
        tables.execute_sql(f"CREATE TABLE {table} ({spec.columns}) WITH ({options})")
        listed.sources[table] = spec.changes
        if in_halves:
            listed.halves[table] = len(spec.changes) // 2
    if program.build is not None:
        program.build(env, tables)
    else:
        tables.execute_sql(f"CREATE TABLE o ({program.sink}) WITH ({program.sink_options})")
        tables.execute_sql(f"INSERT INTO o {program.query}")
    assert not planned.faults, planned.faults
    (graph,) = planned.graphs
    return graph


def operators_of(graph: JobGraph) -> set[str]:
    """Return the names of the classes of a job's operators."""
    return {type(node.operator).__name__ for vertex in graph.vertices for node in vertex.nodes}


def table_of(name: str, results: Mapping[tuple[int, int], Sequence[Any]]) -> Any:
    """Return the table that the results of a program make: rows with their counts, or in their order."""
    program = {**PROGRAMS, **EXPIRING}[name]
    changes = [_change(value) for values in results.values() for value in values]
    if program.is_ordered:
        return [row for _, row in changes]
    if program.is_keyed:
        by_key: dict[Any, tuple[Any, ...]] = {}
        for kind, row in changes:
            by_key[row[0]] = row
            if kind == "-D":
                del by_key[row[0]]
        changes = inserts([*by_key.values()])
    found: Counter[tuple[Any, ...]] = Counter()
    for kind, row in changes:
        found[row[: program.compared]] += 1 if kind in ("+I", "+U") else -1
    assert not -found, f"rows that went, and had not come: {-found}"
    return +found


def _change(value: Any) -> Change:
    """Return the change that a sink got: a Row, or, where it was written by commits, one with its kind and time."""
    if isinstance(value, Row):
        return str(value.get_row_kind()), tuple(value)
    row, time = value
    return str(RowKind(row[-1])), (*tuple(row)[:-1], time)


def changelog(random: Random, rows: Sequence[tuple[Any, ...]]) -> list[Change]:
    """Return rows that come, and some that go again, perhaps because others take their place."""
    changes: list[Change] = []
    there: list[tuple[Any, ...]] = []
    for one in rows:
        chance = random.random()
        if there and chance < 0.25:
            changes.append(("-D", there.pop(random.randrange(len(there)))))
        if there and chance > 0.75:
            changes += [("-U", there.pop(random.randrange(len(there)))), ("+U", one)]
        else:
            changes.append(("+I", one))
        there.append(one)
    return changes


def updates(random: Random, count: int, *, before: bool) -> list[Change]:
    """Return the changes of a table whose last column, `id`, is its primary key. `before`: whether it has -U."""
    changes: list[Change] = []
    there: dict[int, tuple[Any, ...]] = {}
    for _ in range(count):
        id = random.randrange(14)
        row = (random.choice("abc"), random.randrange(9), id)
        if id not in there:
            changes.append(("+I", row))
        elif random.random() < 0.25:
            changes.append(("-D", there.pop(id)))
            continue
        else:
            changes += [*([("-U", there[id])] if before else []), ("+U", row)]
        there[id] = row
    return changes


def rows(seed: int, count: int, keys: str = "abc") -> list[tuple[Any, ...]]:
    """Return rows of key, number and id."""
    random = Random(seed)
    return [(random.choice([*keys, None]), random.choice([None, *range(9)]), id) for id in range(count)]


def timed(seed: int, count: int, keys: str = "ab", pace_s: int = 1) -> list[tuple[Any, ...]]:
    """Return rows of key, number, id and time, mostly in the order of time."""
    random = Random(seed)
    return [
        (random.choice(keys), random.randrange(9), id, at(pace_s * id + random.randrange(-2, 3))) for id in range(count)
    ]


def ticks(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Return rows of key, number, id and a time of their own, in random order within five seconds."""
    random = Random(seed)
    ordered = [(random.choice("ab"), random.randrange(9), id, at(id)) for id in range(count)]
    return [row for start in range(0, count, 4) for row in random.sample(ordered[start : start + 4], k=4)]


AGGREGATES = """COUNT(*) AS c, SUM(n) AS s, MIN(n) AS mn, MAX(n) AS mx, COUNT(DISTINCT n) AS d,
    SUM(DISTINCT n) AS ds"""
AGGREGATED = "k STRING, c BIGINT, s INT, mn INT, mx INT, d BIGINT, ds INT"
GROUPED = f"SELECT k, {AGGREGATES} FROM t GROUP BY k"
CHANGES = {"t": TableSpec(PAIRS, changelog(Random(1), rows(1, 60)), ALL_KINDS)}
MOMENTS = {"t": TableSpec(TIMED, inserts(timed(2, 60)))}
TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '6' SECOND))"
HOP = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '12' SECOND))"
WINDOWED = f"SELECT k, window_end, {AGGREGATES} FROM {{}} GROUP BY k, window_start, window_end"
SESSION = "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND))"
SIDES = {
    "l": TableSpec(TIMED, inserts(timed(3, 40))),
    "r": TableSpec(TIMED, inserts(timed(4, 40))),
}
NUMBERED = "SELECT {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS r FROM t) WHERE r {}"


def floats(seed: int, count: int) -> list[tuple[Any, ...]]:
    """Return rows of a float, of which Python takes some for others, and a number."""
    random = Random(seed)
    return [(random.choice([0.0, -0.0, math.nan, -math.nan, 1.5]), random.randrange(100)) for _ in range(count)]


def _versions(random: Random) -> list[Change]:
    found: list[Change] = []
    there: dict[str, int] = {}
    for second in range(0, 48, 2):
        key = random.choice("ab")
        if key in there and random.random() < 0.3:
            found.append(("-D", (key, there.pop(key), at(second))))
        else:
            found.append(("+U" if key in there else "+I", (key, second, at(second))))
            there[key] = second
    return found


def _through_streams(env: StreamExecutionEnvironment, tables: StreamTableEnvironment) -> None:
    rows_of_table = tables.to_data_stream(tables.from_path("t"))
    table = tables.from_data_stream(rows_of_table.map(lambda row: row, output_type=rows_of_table.get_type()))
    sums = table.group_by(table.k).select(table.k, table.n.sum.alias("s"), table.id.max.alias("m"))
    tables.to_changelog_stream(sums).print()
    env.execute()


PROGRAMS: dict[str, SqlProgram] = {
    "groups": SqlProgram(
        ("ScanOperator", "GroupAggregateOperator"), CHANGES, GROUPED, AGGREGATED
    ),
    "groups of floats": SqlProgram(
        ("GroupAggregateOperator",), {"t": TableSpec("f DOUBLE, n INT", inserts(floats(23, 50)))},
        "SELECT CAST(f AS STRING), s, c FROM (SELECT f, SUM(n) AS s, COUNT(*) AS c FROM t GROUP BY f)",
        "f STRING, s INT, c BIGINT",
    ),
    "bundles": SqlProgram(
        ("ProcessingTimeBundlesOperator", "BundledGroupAggregateOperator"),
        CHANGES, GROUPED, AGGREGATED, {**MINI_BATCH, **ONE_PHASE},
    ),
    "two phases": SqlProgram(
        ("LocalGroupAggregateOperator", "GlobalGroupAggregateOperator"), CHANGES, GROUPED, AGGREGATED, MINI_BATCH
    ),
    "split distinct": SqlProgram(
        ("IncrementalGroupAggregateOperator",),
        {"t": TableSpec(PAIRS, inserts(rows(5, 70)))}, GROUPED, AGGREGATED, {**MINI_BATCH, **SPLIT},
    ),
    "bundles of event time": SqlProgram(
        ("EventTimeBundlesOperator",), {"t": TableSpec(TIMED, inserts(timed(29, 60, "abcd")))},
        f"SELECT k, COUNT(*), MAX(s) FROM (SELECT k, SUM(n) AS s FROM {TUMBLE.format('t')} "
        "GROUP BY k, window_start, window_end) GROUP BY k",
        "k STRING, c BIGINT, m INT", MINI_BATCH,
    ),
    "grouping sets": SqlProgram(
        ("ExpandOperator",), CHANGES,
        "SELECT k, n, COUNT(*), SUM(id) FROM t GROUP BY GROUPING SETS ((k, n), (k), ())",
        "k STRING, n INT, c BIGINT, s INT",
    ),
    "computed": SqlProgram(
        ("CalcOperator", "RenameOperator"), CHANGES,
        "SELECT UPPER(k) AS a, n * 2 AS b FROM t WHERE id <> 7", "x STRING, y INT",
    ),
    "constraints": SqlProgram(
        ("ConstraintOperator",), {"t": TableSpec(PAIRS, inserts(rows(6, 50)))},
        "SELECT k, n, id FROM t", "k STRING NOT NULL, n INT, id INT",
        {"table.exec.sink.not-null-enforcer": "DROP"},
    ),
    "upserts": SqlProgram(
        ("ChangelogNormalizeOperator",),
        {"t": TableSpec("k STRING, n INT, id INT PRIMARY KEY NOT ENFORCED", updates(Random(7), 70, before=False),
                        "I,UA,D")},
        GROUPED, AGGREGATED,
    ),
    "no rows before updates": SqlProgram(
        ("DropUpdateBeforeOperator",),
        {"t": TableSpec("k STRING, n INT, id INT PRIMARY KEY NOT ENFORCED", updates(Random(8), 70, before=True),
                        ALL_KINDS)},
        "SELECT id, k, n FROM t", "id INT PRIMARY KEY NOT ENFORCED, k STRING, n INT",
        sink_options="'connector' = 'listed', 'sink-changelog-mode-enforced' = 'I,UA,D'", is_keyed=True,
    ),
    "upserts by another key": SqlProgram(
        ("MaterializeOperator",),
        {"t": TableSpec("k STRING, n INT, id INT PRIMARY KEY NOT ENFORCED", updates(Random(9), 60, before=True),
                        ALL_KINDS)},
        "SELECT s, k FROM (SELECT k, n, SUM(id) AS s FROM t GROUP BY k, n)",
        "s INT PRIMARY KEY NOT ENFORCED, k STRING", {"table.exec.sink.require-on-conflict": "false"},
        sink_options="'connector' = 'listed', 'sink-changelog-mode-enforced' = 'I,UA,D'", is_keyed=True, compared=1,
    ),
    "kinds in a column": SqlProgram(
        ("KindColumnOperator",), CHANGES, GROUPED, AGGREGATED, sink_options="'connector' = 'recorded'"
    ),
    "joins and top rows": SqlProgram(
        ("JoinOperator", "RankOperator"),
        {"l": TableSpec(PAIRS, changelog(Random(10), rows(10, 40)), ALL_KINDS),
         "r": TableSpec(PAIRS, changelog(Random(11), rows(11, 40)), ALL_KINDS)},
        """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC, a, b) AS place FROM
            (SELECT l.k, l.n, l.id AS a, r.id AS b FROM l LEFT JOIN r ON l.k = r.k AND l.n <= r.n))
            WHERE place <= 4""",
        "k STRING, n INT, a INT, b INT, place BIGINT",
    ),
    "semi join": SqlProgram(
        ("JoinOperator",),
        {"l": TableSpec(PAIRS, changelog(Random(12), rows(12, 40)), ALL_KINDS),
         "r": TableSpec(PAIRS, changelog(Random(13), rows(13, 40)), ALL_KINDS)},
        "SELECT * FROM l WHERE EXISTS (SELECT * FROM r WHERE l.k = r.k AND l.n < r.n)", PAIRS,
    ),
    "the best row": SqlProgram(
        ("TopRowOperator",), {"t": TableSpec(PAIRS, inserts(rows(14, 60)))},
        NUMBERED.format("k, n, id", "n DESC, id", "= 1"), PAIRS, is_keyed=True,
    ),
    "the best rows": SqlProgram(
        ("AppendTopOperator",), {"t": TableSpec(PAIRS, inserts(rows(15, 60)))},
        NUMBERED.format("k, n, id, r", "n DESC, id", "<= 3"), f"{PAIRS}, r BIGINT",
    ),
    "the best counts": SqlProgram(
        ("RankOperator",), {"t": TableSpec(PAIRS, inserts(rows(37, 80)))},
        """SELECT k, n, c, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY c DESC, n) AS r
            FROM (SELECT k, n, COUNT(*) AS c FROM t GROUP BY k, n)) WHERE r <= 3""",
        "k STRING, n INT, c BIGINT, r BIGINT",
    ),
    "the first row": SqlProgram(
        ("FirstRowOperator",), {"t": TableSpec(f"{PAIRS}, p AS PROCTIME()", inserts(rows(16, 50, "abcdef")))},
        NUMBERED.format("k, n, id", "p", "= 1"), PAIRS,
    ),
    "the last row": SqlProgram(
        ("TopRowOperator",), {"t": TableSpec(f"{PAIRS}, p AS PROCTIME()", inserts(rows(17, 50)))},
        NUMBERED.format("k, n, id", "p DESC", "= 1"), PAIRS,
    ),
    "windows in one phase": SqlProgram(
        ("WatermarkOperator", "WindowAggregateOperator"), MOMENTS,
        WINDOWED.format(HOP), f"{AGGREGATED.replace('k STRING,', 'k STRING, e TIMESTAMP(3),')}", ONE_PHASE,
    ),
    "windows in two phases": SqlProgram(
        ("LocalWindowAggregateOperator", "GlobalWindowAggregateOperator"), MOMENTS,
        WINDOWED.format(HOP), f"{AGGREGATED.replace('k STRING,', 'k STRING, e TIMESTAMP(3),')}", TWO_PHASE,
    ),
    "watermarks of splits": SqlProgram(
        ("TableSourceOperator",), {"by_split": TableSpec(TIMED, inserts(timed(18, 50)))},
        WINDOWED.format(TUMBLE.format("by_split")), AGGREGATED.replace("k STRING,", "k STRING, e TIMESTAMP(3),"),
    ),
    "the best rows of windows": SqlProgram(
        ("WindowTopOperator", "WindowFunctionOperator"), MOMENTS,
        f"""SELECT k, n, id, e, r FROM (SELECT k, n, id, window_end AS e, ROW_NUMBER() OVER (
            PARTITION BY k, window_start, window_end ORDER BY n DESC, id) AS r FROM {TUMBLE.format("t")})
            WHERE r <= 2""",
        f"{PAIRS}, e TIMESTAMP(3), r BIGINT",
    ),
    "windows of two inputs": SqlProgram(
        ("WindowJoinOperator", "WindowFunctionOperator"), SIDES,
        f"""SELECT a.k, a.id, b.id FROM (SELECT * FROM {TUMBLE.format("l")}) a
            FULL JOIN (SELECT * FROM {TUMBLE.format("r")}) b
            ON a.k = b.k AND a.n = b.n AND a.window_start = b.window_start AND a.window_end = b.window_end""",
        "k STRING, a INT, b INT",
    ),
    "sessions": SqlProgram(
        ("SessionAggregateOperator",), {"t": TableSpec(TIMED, inserts(timed(19, 50, "abc", 2)))},
        WINDOWED.format(SESSION), AGGREGATED.replace("k STRING,", "k STRING, e TIMESTAMP(3),"),
    ),
    "rows of sessions": SqlProgram(
        ("SessionFunctionOperator",), {"t": TableSpec(TIMED, inserts(timed(20, 50, "abc", 2)))},
        f"SELECT k, n, id, window_end FROM {SESSION}", f"{PAIRS}, e TIMESTAMP(3)",
    ),
    "intervals": SqlProgram(
        ("IntervalJoinOperator",), SIDES,
        """SELECT l.k, l.id, r.id FROM l JOIN r ON l.k = r.k AND l.n <> r.n
            AND l.ts BETWEEN r.ts - INTERVAL '3' SECOND AND r.ts + INTERVAL '2' SECOND""",
        "k STRING, a INT, b INT",
    ),
    "intervals with rows alone": SqlProgram(
        ("TimedJoinOperator",), SIDES,
        """SELECT l.k, l.id, r.id FROM l FULL JOIN r ON l.k = r.k AND l.n = r.n
            AND l.ts BETWEEN r.ts - INTERVAL '3' SECOND AND r.ts + INTERVAL '2' SECOND""",
        "k STRING, a INT, b INT",
    ),
    "windows of pairs": SqlProgram(
        ("IntervalJoinOperator",), SIDES,
        """SELECT TUMBLE_END(ts, INTERVAL '4' SECOND), COUNT(*), SUM(n) FROM (SELECT l.ts, r.n FROM l JOIN r
            ON l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL '20' SECOND AND r.ts)
            GROUP BY TUMBLE(ts, INTERVAL '4' SECOND)""",
        "e TIMESTAMP(3), c BIGINT, s INT",
    ),
    "versions": SqlProgram(
        ("TemporalJoinOperator",),
        {"t": TableSpec(TIMED, inserts(timed(21, 45))),
         "v": TableSpec("k STRING PRIMARY KEY NOT ENFORCED, n INT, ts TIMESTAMP(3), "
                        "WATERMARK FOR ts AS ts - INTERVAL '3' SECOND", _versions(Random(22)), "I,UA,D")},
        "SELECT t.id, v.n FROM t LEFT JOIN v FOR SYSTEM_TIME AS OF t.ts ON t.k = v.k", "id INT, n INT",
    ),
    "lookups": SqlProgram(
        ("LookupJoinOperator",),
        {"t": TableSpec(f"{PAIRS}, p AS PROCTIME()", inserts(rows(28, 40))),
         "cities": TableSpec("k INT, name STRING, size INT", inserts(CITIES), options=", 'lookup.cache' = 'PARTIAL'")},
        "SELECT id, name FROM t LEFT JOIN cities FOR SYSTEM_TIME AS OF t.p AS c ON t.n = c.k", "id INT, name STRING",
    ),
    "lookups of changes": SqlProgram(
        ("LookupMemoryOperator",),
        {"t": TableSpec("k STRING, n INT, id INT PRIMARY KEY NOT ENFORCED, p AS PROCTIME()",
                        updates(Random(23), 60, before=True), ALL_KINDS),
         "cities": TableSpec("k INT, name STRING, size INT", inserts(CITIES))},
        "SELECT id, name FROM t LEFT JOIN cities FOR SYSTEM_TIME AS OF t.p AS c ON t.n = c.k", "id INT, name STRING",
        {"table.optimizer.non-deterministic-update.strategy": "TRY_RESOLVE"},
    ),
    "elements": SqlProgram(
        ("CorrelateOperator",),
        {"t": TableSpec("id INT, a ARRAY<INT>", changelog(Random(24), [(n, [*range(n % 4)]) for n in range(40)]),
                        ALL_KINDS)},
        "SELECT id, e FROM t LEFT JOIN UNNEST(a) AS u(e) ON TRUE", "id INT, e INT",
    ),
    "by time": SqlProgram(
        ("TemporalSortOperator",), {"t": TableSpec(TIMED, inserts(ticks(25, 48)))},
        "SELECT k, n, id FROM t ORDER BY ts", PAIRS, is_ordered=True,
    ),
    "by processing time": SqlProgram(
        ("ChunkSortOperator",), {"t": TableSpec(f"{PAIRS}, p AS PROCTIME()", inserts(rows(26, 40)))},
        "SELECT k, n, id FROM t ORDER BY p, n", PAIRS,
    ),
    "sorted": SqlProgram(
        ("EndSortOperator",), CHANGES, "SELECT k, n, id FROM t ORDER BY n, id", PAIRS,
        {"__table.exec.sort.non-temporal.enabled__": "true"}, is_ordered=True,
    ),
    "patterns": SqlProgram(
        ("MatchOperator",), {"t": TableSpec(TIMED, inserts(ticks(27, 60)))},
        """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(A.id) AS f, LAST(A.id) AS l,
            SUM(A.n) AS s, B.id AS b PATTERN (A+ B) DEFINE A AS SUM(A.n) < 20, B AS B.n >= LAST(A.n))""",
        "k STRING, f INT, l INT, s INT, b INT",
    ),
    "event times of rows": SqlProgram(
        ("RowtimeOperator",), MOMENTS, "SELECT k, n, id, ts FROM t", f"{PAIRS}, ts TIMESTAMP(3)",
        sink_options="'connector' = 'recorded'",
    ),
    "streams": SqlProgram(
        ("StreamToTableOperator", "TableToStreamOperator"), {"t": TableSpec(PAIRS, inserts(rows(30, 50)))}, "", "",
        build=_through_streams,
    ),
    "counts of counts": SqlProgram(
        ("GroupAggregateOperator",), {"t": TableSpec(PAIRS, inserts(rows(38, 40, "abcdefgh")))},
        """SELECT c, COUNT(*) AS many, SUM(DISTINCT s) AS s
            FROM (SELECT k, COUNT(*) AS c, SUM(n) AS s FROM t GROUP BY k) GROUP BY c""",
        "c BIGINT, many BIGINT, s INT",
    ),
}  # fmt: skip
"""By name, in the list of docs/internals/sql-execution.md."""

EXPIRING: dict[str, SqlProgram] = {
    "groups that expire": SqlProgram(
        (), {"t": TableSpec(PAIRS, inserts(rows(31, 30)))}, "SELECT k, COUNT(*) AS c FROM t GROUP BY k",
        "k STRING, c BIGINT", is_keyed=True,
    ),
    "bundles that expire": SqlProgram(
        (), {"t": TableSpec(PAIRS, inserts(rows(32, 30)))}, "SELECT k, COUNT(*) AS c FROM t GROUP BY k",
        "k STRING, c BIGINT", MINI_BATCH, is_keyed=True,
    ),
    "joins that expire": SqlProgram(
        (), {"l": TableSpec(PAIRS, inserts(rows(33, 16))), "r": TableSpec(PAIRS, inserts(rows(34, 16)))},
        "SELECT l.k, l.id, r.id FROM l JOIN r ON l.k = r.k", "k STRING, a INT, b INT",
    ),
    "best rows that expire": SqlProgram(
        (), {"t": TableSpec(PAIRS, inserts(rows(35, 30)))},
        NUMBERED.format("k, n, id", "n DESC, id", "<= 2"), PAIRS,
    ),
    "first rows that expire": SqlProgram(
        (), {"t": TableSpec(f"{PAIRS}, p AS PROCTIME()", inserts(rows(36, 30)))},
        NUMBERED.format("k, n, id", "p", "= 1"), PAIRS,
    ),
    "groups of changes that expire": SqlProgram(
        (), {"t": TableSpec(PAIRS, changelog(Random(39), rows(39, 40, "abcdefghij")), ALL_KINDS)},
        "SELECT k, COUNT(*) AS c, COUNT(DISTINCT n) AS d FROM t GROUP BY k", "k STRING, c BIGINT, d BIGINT",
        is_keyed=True,
    ),
}  # fmt: skip
"""Programs whose state expires in the pause between the halves of their rows."""
