"""Statements through Flink's own planner: what it plans is read into nodes, what it refuses is shown to users.

The jars are fetched the first time. Where neither they nor Java can be had, these tests are skipped. One process plans
all of it.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common.files.cache_directory import cache_directory
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.table.connectors.nexmark_table import NexmarkTable
from penstock.table.functions.registry import Context
from penstock.table.logical_types import BIGINT, INT, STRING, row_of
from penstock.table.operators.rows.python_calls import PythonCall
from penstock.table.planner import preparation
from penstock.table.planner.__main__ import main
from penstock.table.planner.compiled_plan import CompiledPlan
from penstock.table.planner.errors import PlannerError, SqlError, UnsupportedPlanError
from penstock.table.planner.expressions import Expressions
from penstock.table.planner.jars import planner_directory
from penstock.table.planner.nodes.aggregate_nodes import GlobalWindowAggregate, LocalWindowAggregate
from penstock.table.planner.nodes.join_nodes import IntervalJoin, LookupJoin, MultiJoin
from penstock.table.planner.nodes.match_nodes import SKIP_PAST_LAST_ROW, AfterMatch, Match, PatternElement
from penstock.table.planner.nodes.rank_nodes import Rank
from penstock.table.planner.nodes.row_nodes import Calc, Exchange
from penstock.table.planner.nodes.specs import HoppingWindow
from penstock.table.planner.nodes.tables import Sink, TableSourceScan
from penstock.table.planner.planner import Planner
from penstock.table.planner.planner_process import PlannerProcess
from penstock.table.planner.preparation import AFTER, launch
from penstock.table.planner.refusals import sql_error

TABLES = (
    """CREATE TABLE events (
        kind INT,
        person ROW<id BIGINT, name STRING, state STRING, at_time TIMESTAMP(3)>,
        auction ROW<id BIGINT, item STRING, seller BIGINT, category BIGINT, expires TIMESTAMP(3), at_time TIMESTAMP(3)>,
        bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, at_time TIMESTAMP(3)>,
        at_time AS CASE WHEN kind = 0 THEN person.at_time WHEN kind = 1 THEN auction.at_time ELSE bid.at_time END,
        WATERMARK FOR at_time AS at_time - INTERVAL '4' SECOND
    ) WITH ('connector' = 'any')""",
    "CREATE VIEW persons AS SELECT person.id, person.name, person.state, at_time FROM events WHERE kind = 0",
    """CREATE VIEW auctions AS SELECT auction.id, auction.item, auction.seller, auction.category, auction.expires,
        at_time FROM events WHERE kind = 1""",
    """CREATE VIEW bids AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, at_time FROM events
        WHERE kind = 2""",
    """CREATE TABLE orders (id BIGINT, item STRING, price DECIMAL(10, 2), paid BOOLEAN, at_time TIMESTAMP(3),
        arrived TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', read_at AS PROCTIME(),
        WATERMARK FOR at_time AS at_time - INTERVAL '1' SECOND) WITH ('connector' = 'kafka', 'format' = 'json')""",
    """CREATE TABLE rates (item STRING, rate DOUBLE, since TIMESTAMP(3), WATERMARK FOR since AS since,
        PRIMARY KEY (item) NOT ENFORCED) WITH ('connector' = 'upsert-kafka')""",
    "CREATE TABLE changes (id BIGINT, name STRING) WITH ('connector' = 'kafka', 'format' = 'debezium-json')",
    "CREATE TABLE items (item STRING, name STRING, PRIMARY KEY (item) NOT ENFORCED) WITH ('connector' = 'jdbc')",
    "CREATE TABLE totals (item STRING, total DECIMAL(38, 2), PRIMARY KEY (item) NOT ENFORCED) WITH ('connector' = 'x')",
    "CREATE TABLE lines (id BIGINT, item STRING) WITH ('connector' = 'print')",
    "CREATE TABLE vectors (label STRING, v ARRAY<FLOAT>) WITH ('connector' = 'x')",
    "CREATE TABLE appended (item STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'json')",
)
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
WINDOW = "INTERVAL '2' SECOND, INTERVAL '10' SECOND"


@pytest.fixture(scope="module")
def process() -> Iterator[PlannerProcess]:
    try:
        directory = planner_directory(os.environ)
        command = launch(directory, os.environ).full_command
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")
    one = PlannerProcess(command)
    yield one
    one.close()


@pytest.fixture(scope="module")
def planner(process: PlannerProcess) -> Planner:
    one = Planner(process=process)
    for statement in TABLES:
        one.execute(statement)
    return one


@pytest.fixture(scope="module")
def bundling(process: PlannerProcess) -> Planner:
    one = Planner(MINI_BATCH, process)
    for statement in TABLES:
        one.execute(statement)
    return one


def plan(planner: Planner, sql: str) -> CompiledPlan:
    found = planner.execute(sql).plan
    assert found is not None
    return found


def names(found: CompiledPlan) -> str:
    return " ".join(node.name for node in found.nodes.values() if not isinstance(node, TableSourceScan | Sink))


QUERIES = {
    "INSERT INTO lines SELECT auction, channel FROM bids": "Calc",
    "SELECT auction, bidder, 0.908 * price AS price, at_time FROM bids": "Calc",
    "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0": "Calc",
    "SELECT P.name, A.id FROM auctions A JOIN persons P ON A.seller = P.id WHERE P.state IN ('OR', 'ID', 'CA')": (
        "Calc Exchange Calc Exchange Join Calc"
    ),
    """SELECT category, AVG(final) FROM (SELECT MAX(B.price) AS final, A.id, A.category FROM auctions A JOIN bids B
        ON A.id = B.auction AND B.at_time BETWEEN A.at_time AND A.expires GROUP BY A.id, A.category)
        GROUP BY category""": (
        "Calc Exchange Calc Exchange Join Calc Exchange GroupAggregate Calc Exchange GroupAggregate"
    ),
    f"""SELECT auction, COUNT(*) AS n, window_start FROM TABLE(HOP(TABLE bids, DESCRIPTOR(at_time), {WINDOW}))
        GROUP BY auction, window_start, window_end""": "Calc LocalWindowAggregate Exchange GlobalWindowAggregate Calc",
    """SELECT auction, SUM(price) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' SECOND))
        GROUP BY auction, window_start, window_end""": "Calc LocalWindowAggregate Exchange GlobalWindowAggregate Calc",
    """SELECT COUNT(DISTINCT bidder) FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '1' MINUTE,
        INTERVAL '1' HOUR)) GROUP BY window_start, window_end""": (
        "Calc LocalWindowAggregate Exchange GlobalWindowAggregate Calc"
    ),
    """SELECT bidder, COUNT(*) FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(at_time),
        INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end""": "Calc Exchange WindowAggregate Calc",
    """SELECT bidder, COUNT(*), TUMBLE_START(at_time, INTERVAL '10' SECOND) FROM bids
        GROUP BY bidder, TUMBLE(at_time, INTERVAL '10' SECOND)""": "Calc Exchange GroupWindowAggregate Calc",
    """SELECT item, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(read_at), INTERVAL '10' SECOND))
        GROUP BY item, window_start, window_end""": "Calc Exchange WindowAggregate Calc",
    """SELECT L.id FROM (SELECT * FROM TABLE(TUMBLE(TABLE persons, DESCRIPTOR(at_time), INTERVAL '10' SECOND))) L
        JOIN (SELECT * FROM TABLE(TUMBLE(TABLE auctions, DESCRIPTOR(at_time), INTERVAL '10' SECOND))) R
        ON L.id = R.seller AND L.window_start = R.window_start AND L.window_end = R.window_end""": (
        "Calc WindowTableFunction Calc Exchange Calc WindowTableFunction Calc Exchange WindowJoin Calc"
    ),
    """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS n
        FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' SECOND))) WHERE n <= 3""": (
        "Calc WindowTableFunction Exchange WindowRank"
    ),
    """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, bidder ORDER BY at_time DESC)
        AS n FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at_time), INTERVAL '10' SECOND))) WHERE n = 1""": (
        "Calc WindowTableFunction Exchange WindowDeduplicate Calc"
    ),
    """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS n FROM bids)
        WHERE n <= 10""": "Calc Exchange Rank Calc",
    """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY at_time DESC) AS n FROM bids)
        WHERE n = 1""": "Calc Exchange Deduplicate Calc",
    "SELECT auction FROM bids LIMIT 3": "Calc Exchange Limit Calc",
    "SELECT auction, price FROM bids ORDER BY price LIMIT 3": "Calc Exchange SortLimit",
    "SELECT auction, at_time FROM bids ORDER BY at_time": "Calc Exchange TemporalSort",
    "SELECT auction, COUNT(*) FILTER (WHERE price < 10000) FROM bids GROUP BY auction": "Calc Exchange GroupAggregate",
    "SELECT channel, COUNT(DISTINCT bidder) FROM bids GROUP BY channel": "Calc Exchange GroupAggregate",
    "SELECT COUNT(*), MAX(price) FROM bids": "Calc Exchange GroupAggregate",
    "SELECT auction, bidder, COUNT(*) FROM bids GROUP BY GROUPING SETS ((auction), (bidder))": (
        "Calc Expand Exchange GroupAggregate Calc"
    ),
    """SELECT auction, SUM(price) OVER (PARTITION BY auction ORDER BY at_time ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
        FROM bids""": "Calc Exchange OverAggregate Calc",
    "SELECT id FROM persons UNION ALL SELECT id FROM auctions": "Calc Calc Union",
    "SELECT id FROM persons UNION SELECT id FROM auctions": "Calc Calc Union Exchange GroupAggregate",
    "SELECT * FROM auctions WHERE seller IN (SELECT id FROM persons)": "Calc Exchange Calc Exchange Join",
    "SELECT * FROM auctions A WHERE NOT EXISTS (SELECT 1 FROM persons P WHERE P.id = A.seller)": (
        "Calc Exchange Calc Exchange Join"
    ),
    "SELECT * FROM auctions A FULL JOIN persons P ON P.id = A.seller": "Calc Exchange Calc Exchange Join",
    """SELECT A.id FROM auctions A JOIN bids B ON A.id = B.auction
        AND B.at_time BETWEEN A.at_time - INTERVAL '5' SECOND AND A.at_time + INTERVAL '5' SECOND""": (
        "Calc Exchange Calc Exchange IntervalJoin Calc"
    ),
    "SELECT o.id, i.name FROM orders o LEFT JOIN items FOR SYSTEM_TIME AS OF o.read_at AS i ON o.item = i.item": (
        "Calc LookupJoin Calc"
    ),
    "SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.at_time AS r ON o.item = r.item": (
        "Exchange Exchange ChangelogNormalize Exchange TemporalJoin Calc"
    ),
    "SELECT name, COUNT(*) FROM changes GROUP BY name": "Exchange GroupAggregate",
    "SELECT item, rate FROM rates": "Calc Exchange ChangelogNormalize",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t (n, s)": "Values",
    "SELECT id, w FROM orders CROSS JOIN UNNEST(SPLIT(item, ' ')) AS t (w)": "Calc Correlate Calc",
    "INSERT INTO totals SELECT item, SUM(price) FROM orders GROUP BY item": "Calc Exchange GroupAggregate",
    "WITH big AS (SELECT * FROM bids WHERE price > 100) SELECT auction, COUNT(*) FROM big GROUP BY auction": (
        "Calc Exchange GroupAggregate"
    ),
    "SELECT auction FROM bids GROUP BY auction HAVING COUNT(*) > 3": "Calc Exchange GroupAggregate Calc",
    """EXECUTE STATEMENT SET BEGIN INSERT INTO lines SELECT id, item FROM orders;
        INSERT INTO totals SELECT item, SUM(price) FROM orders GROUP BY item; END""": (
        "Calc Calc Exchange GroupAggregate"
    ),
}


@pytest.mark.parametrize("sql", QUERIES)
def test_a_statement_becomes_nodes(planner: Planner, sql: str) -> None:
    """A statement that Flink plans would be refused, or run by other operators than Flink's."""
    assert names(plan(planner, sql)) == QUERIES[sql]


BUNDLED = {
    "SELECT auction, bidder FROM bids": "MiniBatchAssigner Calc",
    "SELECT auction, MAX(price) FROM bids GROUP BY auction": (
        "MiniBatchAssigner Calc LocalGroupAggregate Exchange GlobalGroupAggregate"
    ),
    "SELECT channel, COUNT(DISTINCT bidder) FROM bids GROUP BY channel": (
        "MiniBatchAssigner Calc LocalGroupAggregate Exchange IncrementalGroupAggregate Exchange GlobalGroupAggregate"
    ),
    "SELECT name, COUNT(*) FROM changes GROUP BY name": (
        "MiniBatchAssigner LocalGroupAggregate Exchange GlobalGroupAggregate"
    ),
}


@pytest.mark.parametrize("sql", BUNDLED)
def test_options_change_the_plan(bundling: Planner, sql: str) -> None:
    """Options of one environment would be lost, or would hold for another one of the same process."""
    assert names(plan(bundling, sql)) == BUNDLED[sql]


def test_what_nodes_say(planner: Planner) -> None:
    """Operators would be built from values that the plan does not have."""
    hop = f"""SELECT auction, COUNT(*) AS n FROM TABLE(HOP(TABLE bids, DESCRIPTOR(at_time), {WINDOW}))
        GROUP BY auction, window_start, window_end"""
    found = plan(planner, hop)
    nodes = {node.name: node for node in found.nodes.values()}
    local, exchange, final = nodes["LocalWindowAggregate"], nodes["Exchange"], nodes["GlobalWindowAggregate"]
    assert isinstance(local, LocalWindowAggregate)
    assert isinstance(exchange, Exchange)
    assert isinstance(final, GlobalWindowAggregate)
    assert local.windowing.window == HoppingWindow(size="PT10S", slide="PT2S")
    assert local.agg_calls[0].function == "COUNT"
    assert exchange.input_properties[0].required_distribution.keys == (0,)
    assert [one.property.kind for one in final.named_window_properties] == ["WindowStart", "WindowEnd"]
    assert found.inputs_of(final) == (exchange,)
    assert found.inputs_of(exchange) == (local,)


def test_changelogs(planner: Planner) -> None:
    """A sink would not retract what a query takes back."""
    found = plan(planner, "INSERT INTO totals SELECT item, SUM(price) FROM orders GROUP BY item")
    (sink,) = found.sinks
    assert sink.input_changelog_mode == ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER")
    assert sink.dynamic_table_sink.table.identifier == "`default_catalog`.`default_database`.`totals`"
    (sink,) = plan(planner, "SELECT name FROM changes").sinks
    assert sink.input_changelog_mode == ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")
    (sink,) = plan(planner, "INSERT INTO lines SELECT id, item FROM orders").sinks
    assert sink.input_changelog_mode == ("INSERT",)


@pytest.mark.parametrize(
    ("options", "query", "expected"),
    [
        ("'connector' = 'jdbc'", "SELECT item, SUM(price) FROM orders GROUP BY item", ["INSERT", "UPDATE_AFTER"]),
        (
            "'connector' = 'upsert-kafka'",
            "SELECT name, COUNT(*) FROM changes GROUP BY name",
            ["INSERT", "UPDATE_AFTER", "DELETE"],
        ),
        ("'connector' = 'kafka', 'format' = 'json'", "SELECT item, price FROM orders", ["INSERT"]),
        (
            "'connector' = 'x', 'sink-changelog-mode-enforced' = 'I,UA,D'",
            "SELECT name, COUNT(*) FROM changes GROUP BY name",
            ["INSERT", "UPDATE_AFTER", "DELETE"],
        ),
    ],
)
def test_what_sinks_take(planner: Planner, options: str, query: str, expected: list[str]) -> None:
    """A sink would get rows that it does not need, or cannot write."""
    planner.execute(f"CREATE TABLE goal (k STRING, v DECIMAL(38, 2), PRIMARY KEY (k) NOT ENFORCED) WITH ({options})")
    try:
        (sink,) = plan(planner, f"INSERT INTO goal {query}").sinks
    finally:
        planner.execute("DROP TABLE goal")
    assert list(sink.input_changelog_mode) == expected


def test_what_sources_are_asked_for(planner: Planner) -> None:
    """Sources would read columns that nobody needs, and give no watermarks."""
    found = plan(planner, "SELECT item, arrived FROM orders WHERE at_time > TIMESTAMP '2024-01-01 00:00:00'")
    (scan,) = [node for node in found.nodes.values() if isinstance(node, TableSourceScan)]
    abilities = {type(one).__name__: one for one in scan.scan_table_source.abilities}
    assert list(abilities) == ["ProjectPushDown", "ReadingMetadata", "WatermarkPushDown"]
    assert abilities["ReadingMetadata"].metadata_keys == ("timestamp",)  # type: ignore[union-attr]
    assert scan.output_type.names == ("item", "at_time", "arrived")
    assert scan.output_type.field_time_attributes == (None, "ROWTIME", None)


def test_joins_and_ranks(planner: Planner) -> None:
    """A join would look up other keys, a top N keep other ranks."""
    interval = """SELECT A.id FROM auctions A JOIN bids B ON A.id = B.auction
        AND B.at_time BETWEEN A.at_time - INTERVAL '5' SECOND AND A.at_time"""
    (join,) = [node for node in plan(planner, interval).nodes.values() if isinstance(node, IntervalJoin)]
    bounds = join.interval_join_spec.window_bounds
    assert (bounds.left_lower_bound, bounds.left_upper_bound) == (0, 5000)
    lookup = "SELECT i.name FROM orders o JOIN items FOR SYSTEM_TIME AS OF o.read_at AS i ON o.item = i.item"
    (looked_up,) = [node for node in plan(planner, lookup).nodes.values() if isinstance(node, LookupJoin)]
    assert list(looked_up.lookup_keys) == [0]
    top = """SELECT * FROM (SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS n
        FROM bids) WHERE n <= 10"""
    (rank,) = [node for node in plan(planner, top).nodes.values() if isinstance(node, Rank)]
    assert (rank.rank_range.end, rank.order_by.fields[0].is_ascending) == (10, False)  # type: ignore[union-attr]


EXPRESSIONS: dict[str, list[Any]] = {
    "a + 1": [2, 3, None],
    "b IN (0, 3)": [True, True, False],
    "b NOT IN (0, 3)": [False, False, True],
    "b BETWEEN 1 AND 3 OR b = 7": [False, True, False],
    "s IN ('apple', 'x')": [True, False, None],
    "s IS NULL OR s IN ('p', 'q')": [False, False, True],
    "s IS NOT NULL AND s IN ('apple', 'q')": [True, False, False],
    "CASE WHEN b <> 0 THEN 6 / b ELSE -1 END": [-1, 2, 1],
    "b <> 0 AND 6 / b > 1": [False, True, False],
    "b = 0 OR 6 / b > 1": [True, True, False],
    "d * 2": [Decimal("3.00"), None, Decimal("4.50")],
    "d BETWEEN 1 AND 2": [True, None, False],
    "r.y": ["q", None, "z"],
    "COALESCE(s, '')": ["apple", "b,c", ""],
    "JSON_OBJECT('k' VALUE JSON_ARRAY(b))": ['{"k":[0]}', '{"k":[3]}', '{"k":[4]}'],
    "JSON_QUERY('{\"k\":[1]}', '$.k' WITH CONDITIONAL WRAPPER)": ["[1]"] * 3,
    "JSON_QUERY('{}', 'lax $.k' EMPTY ARRAY ON EMPTY)": ["[]"] * 3,
    "UPPER(s) || LOWER(s)": ["APPLEapple", "B,Cb,c", None],
    "SPLIT_INDEX(s, ',', 1)": [None, "c", None],
    "REGEXP_EXTRACT(s, '(b),(c)', 2)": [None, "c", None],
    "s LIKE 'a%'": [True, False, None],
    "TRIM(BOTH 'a' FROM s)": ["pple", "b,c", None],
    "CAST(s AS VARCHAR(2))": ["ap", "b,", None],
    "EXTRACT(HOUR FROM ts)": [3, 3, 3],
    "DATE_FORMAT(ts, 'yyyy-MM-dd')": ["2024-01-02"] * 3,
    "ts - INTERVAL '5' SECOND": [datetime(2024, 1, 2, 3, 4, 0)] * 3,
    "TIMESTAMPDIFF(DAY, ts, TIMESTAMP '2024-03-01 00:00:00')": [58] * 3,
    "TIMESTAMPDIFF(MONTH, ts, TIMESTAMP '2024-04-01 00:00:00')": [2] * 3,
    "FLOOR(ts TO HOUR)": [datetime(2024, 1, 2, 3)] * 3,
    "ts IN (TIMESTAMP '2024-01-02 03:04:05', TIMESTAMP '2024-01-02 03:04:06')": [True] * 3,
    "DATE '2024-03-01'": [date(2024, 3, 1)] * 3,
    "x'0aff'": [b"\n\xff"] * 3,
    "CAST(NULL AS INT)": [None] * 3,
    "COALESCE(a, 9)": [1, 2, 9],
    "ARRAY[1, b]": [[1, 0], [1, 3], [1, 4]],
    "JSON_VALUE('{\"k\": 1}', '$.k')": ["1"] * 3,
    "NOT b = 3": [True, False, True],
    "a = 2 OR a IS NULL": [False, True, True],
}


@pytest.fixture(scope="module")
def with_values(process: PlannerProcess) -> Planner:
    one = Planner(process=process)
    one.execute(
        "CREATE TABLE t (a BIGINT, b INT, s STRING, d DECIMAL(10, 2), ts TIMESTAMP(3), r ROW<x INT, y STRING>)"
        " WITH ('connector' = 'any')"
    )
    return one


VALUES = {
    "a": pa.array([1, 2, None]),
    "b": pa.array([0, 3, 4], pa.int32()),
    "s": pa.array(["apple", "b,c", None]),
    "d": pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(10, 2)),
    "ts": pa.array([datetime(2024, 1, 2, 3, 4, 5)] * 3, pa.timestamp("ms")),
    "r_x": pa.array([1, None, None], pa.int32()),
    "r_y": pa.array(["q", None, "z"]),
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_evaluated(with_values: Planner, expression: str) -> None:
    """An expression would have another value than in Flink. (That of NULLs, of rows that fail when they need not.)"""
    nodes = list(plan(with_values, f"SELECT {expression} FROM t").nodes.values())
    columns = [VALUES[name] for name in nodes[0].output_type.names]
    for node in nodes:
        if isinstance(node, Calc):
            columns = Expressions(node.projection).evaluate(columns, Context(rows=3))
    (column,) = columns
    assert (column.to_pylist() if isinstance(column, pa.Array) else [column.as_py()] * 3) == EXPRESSIONS[expression]


REFUSED = {
    "SELECT\n  bider FROM bids": (
        "Column 'bider' not found in any table",
        2,
        3,
        "   2 |   bider FROM bids\n         ^^^^^",
    ),
    "SELECT auction FORM bids x": ('Encountered "bids". Expected: ', 1, 21, "1 | SELECT auction FORM bids x\n"),
    "CREATE TABLE without (a INT)": (
        'Encountered "without". Expected: <IDENTIFIER>. without is a word of SQL: as a name, write `without`.',
        1,
        14,
        "^",
    ),
    "CREATE TABLE t (id INT, at INT)": ("at is a word of SQL: as a name, write `at`. (line 1, column 25)", 1, 25, "^"),
    "SELECT count FROM orders": ("count is a word of SQL: as a name, write `count`.", 1, 8, "^"),
    "SELECT * FROM nowhere": ("Object 'nowhere' not found", 1, 15, "^^^^^^^"),
    "INSERT INTO lines SELECT id FROM orders": ("Different number of columns", 0, 0, "1 | INSERT INTO lines"),
    "CREATE TABLE lines (a INT) WITH ('connector' = 'x')": ("already exists", 0, 0, "1 | CREATE TABLE lines"),
    "CREATE TABLE copy AS SELECT id FROM orders": ("not supported: CREATE TABLE AS", 0, 0, "1 | CREATE TABLE copy"),
    "INSERT INTO appended SELECT item, COUNT(*) FROM orders GROUP BY item": (
        "doesn't support consuming update changes",
        0,
        0,
        "1 | INSERT INTO appended",
    ),
    """SELECT * FROM orders, LATERAL TABLE (VECTOR_SEARCH(TABLE vectors, DESCRIPTOR(v), ARRAY[1.0], 3))""": (
        "this statement is not supported: VECTOR SEARCH",
        0,
        0,
        "1 | SELECT * FROM orders, LATERAL",
    ),
    "SELECT no_function(id) FROM orders": ("No match found for function signature no_function", 1, 8, "^^^"),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_a_refusal_shows_the_statement(planner: Planner, sql: str) -> None:
    """Users would have to find the mistake in a trace of Java's."""
    message, line, column, shown = REFUSED[sql]
    with pytest.raises(SqlError) as caught:
        planner.execute(sql)
    text = str(caught.value)
    assert message in text
    assert shown in text
    assert (caught.value.line, caught.value.column) == (line, column)
    assert "org.apache" not in text
    assert "\tat " not in text


def test_patterns(planner: Planner) -> None:
    """MATCH_RECOGNIZE would be refused, or a pattern that Flink's runtime refuses would match something else."""
    sql = """SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY auction ORDER BY at_time MEASURES B.price AS p
        AFTER MATCH SKIP PAST LAST ROW PATTERN (A {}) WITHIN INTERVAL '1' HOUR DEFINE B AS B.price > A.price)"""
    (match,) = [node for node in plan(planner, sql.format("B{2,}? C")).nodes.values() if isinstance(node, Match)]
    assert match.match_spec.elements == (PatternElement("A"), PatternElement("B", 2, None, False), PatternElement("C"))
    assert match.match_spec.after_match == AfterMatch(SKIP_PAST_LAST_ROW)
    assert match.match_spec.within_ms == 3_600_000
    with pytest.raises(UnsupportedPlanError, match=r"the node 'match' of the plan \(Match\(.*alternatives"):
        planner.execute(sql.format("(B | C)"))


def test_joins_of_several_inputs_in_one_node(process: PlannerProcess) -> None:
    """A hint of Flink's would make a query impossible."""
    planner = Planner({"table.optimizer.multi-join.enabled": "true"}, process)
    for name in "abc":
        planner.execute(f"CREATE TABLE {name} (id BIGINT, v STRING) WITH ('connector' = 'any')")
    found = plan(planner, "SELECT a.v, b.v, c.v FROM a LEFT JOIN b ON a.id = b.id LEFT JOIN c ON a.id = c.id")
    (join,) = [node for node in found.nodes.values() if isinstance(node, MultiJoin)]
    assert join.join_types[1:] == ("LEFT", "LEFT")
    assert len(found.inputs_of(join)) == 3


def test_batch_jobs(process: PlannerProcess) -> None:
    """A query of bounded tables would be planned for operators that are not there."""
    batch = Planner({"execution.runtime-mode": "BATCH"}, process)
    with pytest.raises(SqlError, match=r"BATCH is not supported for SQL: set execution\.runtime-mode to STREAMING"):
        batch.execute("SHOW TABLES")
    planner = Planner({"execution.runtime-mode": "streaming"}, process)
    with pytest.raises(SqlError, match=r"set execution\.runtime-mode to STREAMING"):
        planner.execute("SET 'execution.runtime-mode' = 'batch'")
    assert planner.execute("SELECT 1").plan is not None


def test_functions_of_python(process: PlannerProcess) -> None:
    """Python functions could not be called in SQL."""
    planner = Planner(process=process)
    planner.execute("CREATE TABLE t (a BIGINT, s STRING) WITH ('connector' = 'any')")
    planner.create_function("twice", [BIGINT], BIGINT)
    planner.create_function("words", [STRING], row_of(word=STRING, length=INT), is_table_function=True)
    found = plan(planner, "SELECT twice(a) FROM t")
    (calc,) = [node for node in found.nodes.values() if node.name == "PythonCalc"]
    twice = PythonCall("twice", lambda column: pa.compute.multiply(column, 2), kind="arrow")
    expressions = Expressions(calc.projection, {"twice": twice})  # type: ignore[attr-defined]
    (column,) = expressions.evaluate([pa.array([1, None, 3])], Context(rows=3))
    assert column.to_pylist() == [2, None, 6]
    with pytest.raises(UnsupportedPlanError, match="the function twice is not supported"):
        Expressions(calc.projection)  # type: ignore[attr-defined]
    assert "PythonCorrelate" in names(plan(planner, "SELECT a, word FROM t, LATERAL TABLE(words(s))"))


def test_statements_about_the_catalog(process: PlannerProcess) -> None:
    """SHOW, DESCRIBE, EXPLAIN and SET would say nothing."""
    planner = Planner({"table.local-time-zone": "Asia/Tokyo"}, process)
    planner.execute("CREATE TABLE t (a BIGINT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'any')")
    assert planner.execute("SHOW TABLES").rows == (("t",),)
    described = planner.execute("DESCRIBE t")
    assert dict(zip(described.columns, described.rows[0], strict=True))["type"] == "BIGINT"
    assert "TableSourceScan" in str(planner.execute("EXPLAIN SELECT a FROM t").rows)
    assert "Sink(" in str(planner.execute("EXPLAIN INSERT INTO t SELECT a + 1 FROM t").rows)
    planner.execute("SET 'pipeline.name' = 'mine'")
    assert ("pipeline.name", "mine") in planner.execute("SET").rows
    assert ("table.local-time-zone", "Asia/Tokyo") in planner.execute("SET").rows
    plan(planner, "SELECT a FROM t")
    assert planner.execute("SHOW DATABASES").rows == (("default_database",),)
    planner.execute("DROP TABLE t")
    assert planner.execute("SHOW TABLES").rows == ()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE FUNCTION f AS 'org.F'", "CREATE CATALOG FUNCTION"),
        ("CREATE TEMPORARY SYSTEM FUNCTION f AS 'org.F' USING JAR '/x.jar'", "CREATE TEMP SYSTEM FUNCTION"),
        ("ALTER FUNCTION f AS 'org.F'", "ALTER CATALOG FUNCTION"),
        ("ADD JAR '/x.jar'", "ADD JAR"),
        ("LOAD MODULE hive", "LOAD MODULE"),
        ("SET 'pipeline.jars' = '/x.jar'", "pipeline.jars is not supported"),
        ("SET 'table.exec.legacy-cast-behaviour' = 'enabled'", "must be disabled, got enabled: write TRY_CAST"),
        ("SET 'table.sql-dialect' = 'hive'", "table.sql-dialect must be default, got hive"),
        ("SET 'table.exec.emit.early-fire.enabled' = 'true'", "early-fire.enabled is not supported: a window gives"),
        ("SET 'table.exec.emit.allow-lateness' = '1 h'", "allow-lateness is not supported: a window gives its rows"),
        ("CREATE MODEL m INPUT (a STRING) OUTPUT (b STRING) WITH ('provider' = 'x')", "CREATE MODEL"),
        ("CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' MINUTE AS SELECT id FROM orders", "MATERIALIZED TABLE"),
        ("SHOW JOBS", "SHOW JOBS"),
        ("USE MODULES core", "USE MODULES"),
    ],
)
def test_the_process_refuses_by_itself(planner: Planner, process: PlannerProcess, sql: str, message: str) -> None:
    """A statement that Python does not recognize would load Java, or change what the planner does with others."""
    planner.execute("SHOW TABLES")
    answer = process.request("execute", sql=sql, environment=planner.environment)
    assert not answer["ok"]
    assert message in str(sql_error(sql, answer["causes"]))
    assert planner.execute("SHOW FUNCTIONS").rows


def test_secrets_stay_in_the_program(process: PlannerProcess) -> None:
    """The planner, stored plans, EXPLAIN, SHOW and errors would have passwords."""
    planner = Planner({"x.password": "hunter2"}, process)
    planner.execute("CREATE TABLE t (a BIGINT) WITH ('connector' = 'any', 'password' = 'hunter2')")
    planner.execute("CREATE TABLE u WITH ('connector' = 'other') LIKE t")
    planner.execute("SET 'y.token' = 'hunter2'")
    hint = "SELECT a FROM t /*+ OPTIONS('password' = 'hunter3') */"
    found = planner.compile_plan(["INSERT INTO u SELECT a FROM t", "INSERT INTO u SELECT a + 1 AS a FROM u"])
    shown = [
        found.text,
        planner.explain([hint], ["CHANGELOG_MODE"]),
        *(str(planner.execute(sql).rows) for sql in ("SHOW CREATE TABLE t", "SHOW CREATE TABLE u", "SET")),
        plan(planner, hint).text,
    ]
    with pytest.raises(SqlError) as caught:
        planner.execute("CREATE TABLE t (a BIGINT) WITH ('connector' = 'any', 'password' = 'hunter4')")
    assert not [text for text in (*shown, str(caught.value)) if "hunter" in text]
    (sink,) = found.sinks
    table = sink.dynamic_table_sink.table.resolved_table
    assert table is not None
    assert table.options["password"] == "${secret:t:password}"
    assert planner.secrets.resolve(table.options) == {"connector": "other", "password": "hunter2"}


def test_flinks_text_about_a_plan(planner: Planner) -> None:
    """EXPLAIN of several insertions as one job would say nothing."""
    text = planner.explain(["SELECT item, COUNT(*) FROM orders GROUP BY item"], ["CHANGELOG_MODE"])
    assert "== Optimized Physical Plan ==\nGroupAggregate(" in text
    assert "changelogMode=[I,UA]" in text
    statements = ["INSERT INTO lines SELECT id, item FROM orders", "INSERT INTO lines SELECT id, 'b' FROM orders"]
    text = planner.explain(statements)
    assert "Reused(reference_id=[1])" in text
    assert "penstock_results" not in text
    with pytest.raises(SqlError, match="Object 'nowhere' not found"):
        planner.explain(["SELECT * FROM nowhere"])


def test_nexmarks_events_are_a_table(process: PlannerProcess) -> None:
    """The benchmark's own statements would not find their table."""
    planner = Planner(process=process)
    planner.execute(
        """CREATE TABLE datagen (event_type INT, bid ROW<auction BIGINT, price BIGINT, `dateTime` TIMESTAMP(3)>,
        `dateTime` AS CASE WHEN event_type = 0 THEN NULL ELSE bid.`dateTime` END,
        WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND)
        WITH ('connector' = 'nexmark', 'events.num' = '1000', 'next-event.rate' = '10000')"""
    )
    found = plan(planner, "SELECT bid.price FROM datagen WHERE event_type = 2")
    (scan,) = [node for node in found.nodes.values() if isinstance(node, TableSourceScan)]
    assert NexmarkTable.of(scan.scan_table_source.table) == NexmarkTable(NexmarkConfiguration(), 1000)


def test_tables_that_are_temporary_or_of_other_catalogs(process: PlannerProcess) -> None:
    """Only tables of the default catalog could have a connector."""
    planner = Planner(process=process)
    planner.execute(
        "CREATE TEMPORARY TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka')"
    )
    planner.execute("CREATE CATALOG c WITH ('type' = 'generic_in_memory')")
    planner.execute("CREATE TABLE c.`default`.u (a INT) WITH ('connector' = 'kafka')")
    found = plan(planner, "INSERT INTO t SELECT t.a FROM t WHERE t.a IN (SELECT a FROM c.`default`.u)")
    assert names(found) == "Exchange Exchange Join"
    assert found.sinks[0].input_changelog_mode == ("INSERT", "UPDATE_AFTER", "~DELETE")
    planner.execute("CREATE TABLE bare (a INT)")
    with pytest.raises(SqlError, match="bare has no option 'connector'"):
        planner.execute("SELECT a FROM bare")


def test_a_planner_without_memory(process: PlannerProcess) -> None:
    """A statement that is too large would be an error of Java's, and leave a process that fails at any time."""
    java, *arguments = launch(planner_directory(os.environ), os.environ).full_command
    small = PlannerProcess([java, *("-Xmx12m" if one == "-Xmx512m" else one for one in arguments)])
    with pytest.raises(PlannerError, match=r"has ended\. Try again: [\s\S]*OutOfMemoryError: Java heap space"):
        Planner(process=small).execute("SELECT 1")
    assert small.pid is None


def test_plans_in_files(planner: Planner, tmp_path: Path) -> None:
    """A plan could not be compiled once and executed later."""
    file = tmp_path / "plans" / "it's.json"
    quoted = str(file).replace("'", "''")
    insert = "INSERT INTO lines SELECT id, item FROM orders"
    assert planner.execute(f"COMPILE PLAN '{quoted}' FOR {insert}").plan is None
    first = file.read_text()
    executed = planner.execute(f"EXECUTE PLAN 'file://{quoted}'").plan
    assert executed is not None
    assert (executed.text, len(executed.sinks)) == (first, 1)
    with pytest.raises(
        SqlError, match=r"it's\.json exists\. Remove it, add IF NOT EXISTS, or set table\.plan\.force-rec"
    ):
        planner.execute(f"COMPILE PLAN '{quoted}' FOR {insert}")
    planner.execute(f"compile plan '{quoted}' if not exists for {insert}")
    assert file.read_text() == first
    job = f"STATEMENT SET BEGIN {insert}; INSERT INTO totals SELECT item, SUM(price) FROM orders GROUP BY item; END"
    again = planner.execute(f"COMPILE AND EXECUTE PLAN '{quoted}' FOR {job}").plan
    assert again is not None
    assert again.text == first
    planner.execute("SET 'table.plan.force-recompile' = 'true'")
    try:
        forced = planner.execute(f"-- both\nCOMPILE AND EXECUTE PLAN '{quoted}' FOR {job}").plan
    finally:
        planner.execute("SET 'table.plan.force-recompile' = 'false'")
    assert forced is not None
    assert (len(forced.sinks), file.read_text()) == (2, forced.text)
    with pytest.raises(SqlError, match="Object 'nowhere' not found") as caught:
        planner.execute("COMPILE PLAN 'x.json'\n FOR INSERT INTO lines SELECT id, item FROM nowhere")
    assert (caught.value.line, caught.value.column) == (2, 45)
    with pytest.raises(SqlError, match=r"there is no plan x\.json"):
        planner.execute("EXECUTE PLAN 'x.json'")


def test_several_statements_are_one_job(planner: Planner) -> None:
    """Two insertions would read their source twice."""
    found = planner.compile_plan(
        ["INSERT INTO lines SELECT id, item FROM orders", "INSERT INTO lines SELECT id, 'b' FROM orders"]
    )
    assert len(found.sinks) == 2
    assert sum(isinstance(node, TableSourceScan) for node in found.nodes.values()) == 1


def test_a_planner_that_is_killed(process: PlannerProcess) -> None:
    """A program would have to create its tables again, since another process does not know them."""
    planner = Planner(process=process)
    planner.execute("CREATE TABLE t (a BIGINT) WITH ('connector' = 'any')")
    kill(process)
    assert names(plan(planner, "SELECT a + 1 FROM t")) == "Calc"


def test_a_planner_that_is_killed_as_it_plans(process: PlannerProcess) -> None:
    """A program would wait for the answer until the time-out."""
    planner = Planner(process=process)
    planner.execute("CREATE TABLE t (a BIGINT) WITH ('connector' = 'any')")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    killed = threading.Timer(0.2, os.kill, (process.pid, signal.SIGKILL))
    killed.start()
    with pytest.raises(PlannerError, match="has ended"):
        planner.execute("SELECT a FROM t")
    killed.join()
    assert names(plan(planner, "SELECT a + 1 FROM t")) == "Calc"


def kill(process: PlannerProcess) -> None:
    """Kill the process between two requests, and wait until it has ended."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    while process.pid is not None:
        time.sleep(0.01)


@pytest.mark.thorough
def test_the_archive_of_classes(process: PlannerProcess, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start would take twice as long: the first program has the archive made after its end."""
    directory = planner_directory(os.environ)
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PENSTOCK_FLINK_PLANNER": str(directory)}
    made = cache_directory(environ) / "flink-planner"
    made.mkdir(parents=True)
    # Our classes are compiled already: another JVM would do that once more.
    for ours in (cache_directory(os.environ) / "flink-planner").glob("penstock-*.jar"):
        shutil.copy(ours, made)
    # With the lowest priority it would take minutes beside other tests, and be given up.
    priorities: list[int] = []
    monkeypatch.setattr(os, "nice", priorities.append)
    monkeypatch.setattr(preparation, "BUILD_SECONDS", 600)
    assert main([AFTER, "0", str(directory)], environ) == 0
    assert priorities == [19]
    java, *arguments = launch(directory, environ).full_command
    assert arguments[0] == f"-XX:SharedArchiveFile={launch(directory, environ).archive}"
    # With `on` the JVM does not start unless it can use the archive.
    archived = PlannerProcess([java, *("-Xshare:on" if one == "-Xshare:auto" else one for one in arguments)])
    assert Planner(process=archived).execute("SHOW TABLES").rows == ()
    archived.close()
    assert archived.pid is None
    without = launch(directory, {**environ, "PENSTOCK_CLASS_ARCHIVE": "off"})
    assert not [one for one in without.full_command if "SharedArchiveFile" in one]
