"""Joins with tables that are looked up, versions, intervals and table functions, against plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.table.halves_source import HalvesSource
from tests.table.listed_tables import Change, ListedLookup, Tables, inserts, table_of
from tests.table.table_tests import SMALL, at, crashing, need_planner

from penstock.hosts.simulator import Circumstances

TIMED = "WATERMARK FOR ts AS ts - INTERVAL '3' SECOND"
HERE_AND_AFTER_FAILURES = [SMALL, *crashing()]


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


CITIES = [(1, "Bern", 10), (2, "Basel", 20), (2, "Biel", 30), (3, None, 5)]


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_lookups_give_all_rows_of_a_key(kind: str) -> None:
    """Conditions on either side, several rows of a key, NULL as key, and a distinct key once in each chunk."""
    random = Random(1)
    rows = [(number, random.choice([1, 2, 3, 4, None]), random.randrange(4)) for number in range(40)]
    tables = Tables(circumstances=SMALL)
    tables.create("t", "id INT, k INT, n INT, p AS PROCTIME()", inserts(rows))
    tables.create("cities", "k INT, name STRING, size INT", inserts(CITIES))
    query = f"""SELECT id, name, size FROM t {kind} cities FOR SYSTEM_TIME AS OF t.p AS c
        ON t.k = c.k AND t.n > 0 AND c.size > 5 AND c.size + t.n <> 31"""
    found = tables.insert("o", "id INT, name STRING, size INT", query)
    expected = []
    for id, key, n in rows:
        matching = [one for one in CITIES if one[0] == key and n > 0 and one[2] > 5 and one[2] + n != 31]
        expected += [(id, name, size) for _, name, size in matching]
        if not matching and kind == "LEFT JOIN":
            expected.append((id, None, None))
    assert Counter(found) == Counter(inserts(expected))
    for keys in ListedLookup.calls:
        asked = [one["k"] for one in keys]
        assert None not in asked
        assert len(set(asked)) == len(asked)


def test_a_cache_asks_once_for_each_key() -> None:
    """Keys without a row are kept as well; the oldest of too many keys are asked for again."""
    rows = [(number, number % 3) for number in range(30)]
    calls = []
    for options in (
        ", 'lookup.cache' = 'PARTIAL'",
        ", 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '2'",
    ):
        tables = Tables(circumstances=SMALL, parallelism=1)
        tables.create("t", "id INT, k INT, p AS PROCTIME()", inserts(rows))
        tables.listed.halves["t"] = 1
        tables.create("cities", "k INT, name STRING, size INT", inserts(CITIES), options=options)
        query = "SELECT id, name FROM t LEFT JOIN cities FOR SYSTEM_TIME AS OF t.p AS c ON t.k = c.k"
        found = table_of(tables.insert("o", "id INT, name STRING", query))
        names = {0: [None], 1: ["Bern"], 2: ["Basel", "Biel"]}
        assert found == Counter((id, name) for id, key in rows for name in names[key])
        calls.append(sum(map(len, ListedLookup.calls)))
    assert calls == [3, 30]


@pytest.mark.parametrize(("interval", "loads"), [("5 s", 2), ("1 h", 1)])
def test_all_rows_are_kept_until_they_are_loaded_again(interval: str, loads: int) -> None:
    """A full cache asks for no key, finds several rows of one, and sees what has changed after its interval."""
    rows = [(number, [1, 2, 3, 4, None][number % 5]) for number in range(20)]
    tables = Tables(circumstances=SMALL, parallelism=1)
    tables.create("t", "id INT, k INT, p AS PROCTIME()", inserts(rows))
    # The table of cities loses Bern in the pause behind these rows.
    tables.listed.halves["t"] = 10
    HalvesSource.is_second = False
    options = f", 'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '{interval}'"
    tables.create("cities", "k INT, name STRING, size INT", inserts(CITIES), options=options)
    query = "SELECT id, name FROM t LEFT JOIN cities FOR SYSTEM_TIME AS OF t.p AS c ON t.k = c.k AND c.size > 9"
    found = table_of(tables.insert("o", "id INT, name STRING", query))
    expected = Counter[tuple[int, str | None]]()
    for id, key in rows:
        there = CITIES[1:] if id >= 10 and loads == 2 else CITIES
        names = [name for one, name, size in there if one == key and size > 9]
        expected += Counter((id, name) for name in names or [None])
    assert found == expected
    assert ListedLookup.calls == [[{"all": True}]] * loads


@pytest.mark.parametrize("circumstances", HERE_AND_AFTER_FAILURES)
def test_what_was_looked_up_goes_with_its_row(circumstances: Circumstances) -> None:
    """A changelog's row that goes takes away what it was joined with."""
    random, there, changes = Random(5), dict[int, int](), list[Change]()
    for number in range(30):
        if there and random.random() < 0.4:
            id = random.choice([*there])
            is_updated = random.random() < 0.5
            changes.append(("-U" if is_updated else "-D", (id, there.pop(id))))
            if is_updated:
                there[id] = random.randrange(4)
                changes.append(("+U", (id, there[id])))
        there[number] = random.randrange(4)
        changes.append(("+I", (number, there[number])))
    tables = Tables({"table.optimizer.non-deterministic-update.strategy": "TRY_RESOLVE"}, circumstances=circumstances)
    tables.create("t", "id INT PRIMARY KEY NOT ENFORCED, k INT, p AS PROCTIME()", changes, changelog="I,UB,UA,D")
    tables.create("cities", "k INT, name STRING, size INT", inserts(CITIES))
    query = "SELECT id, name FROM t JOIN cities FOR SYSTEM_TIME AS OF t.p AS c ON t.k = c.k"
    found = table_of(tables.insert("o", "id INT, name STRING", query))
    expected = [(id, name) for id, key in table_of(changes) for one, name, _ in CITIES if one == key]
    assert found == Counter(expected)


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize("circumstances", HERE_AND_AFTER_FAILURES)
def test_rows_join_the_version_of_their_time(kind: str, circumstances: Circumstances) -> None:
    """The last version up to the row's time, unless the key was deleted then; versions may come out of order."""
    random = Random(7)
    rows = [(number, random.choice([1, 2, 3, None]), at(number + random.randrange(3))) for number in range(40)]
    versions: list[Change] = []
    there: dict[int, tuple[Any, ...]] = {}
    for second in range(0, 40, 2):
        key = random.choice([1, 2])
        if key in there and random.random() < 0.3:
            versions.append(("-D", (key, there.pop(key)[1], at(second))))
        else:
            there[key] = (key, second)
            versions.append(("+U" if len(versions) else "+I", (key, second, at(second))))
    tables = Tables(circumstances=circumstances)
    tables.create("t", f"id INT, k INT, ts TIMESTAMP(3), {TIMED}", inserts(rows))
    tables.create("v", f"k INT PRIMARY KEY NOT ENFORCED, n INT, ts TIMESTAMP(3), {TIMED}", versions, changelog="I,UA,D")
    query = f"SELECT id, n FROM t {kind} v FOR SYSTEM_TIME AS OF t.ts AS v ON t.k = v.k"
    found = tables.insert("o", "id INT, n INT", query)
    expected = []
    for id, key, time in rows:
        upto = [(change, row) for change, row in versions if row[0] == key and row[2] <= time]
        if upto and upto[-1][0] != "-D":
            expected.append((id, upto[-1][1][1]))
        elif kind == "LEFT JOIN":
            expected.append((id, None))
    assert Counter(found) == Counter(inserts(expected))
    assert expected


@pytest.mark.parametrize("kind", ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
@pytest.mark.parametrize("circumstances", HERE_AND_AFTER_FAILURES)
def test_rows_without_a_partner_in_the_interval(kind: str, circumstances: Circumstances) -> None:
    """An outer interval join gives each row that finds no partner once, and no pair twice."""
    random = Random(3)
    left, right = (
        [(number, random.choice([1, 2, None]), at(2 * number + random.randrange(2))) for number in range(25)]
        for _ in range(2)
    )
    tables = Tables(circumstances=circumstances)
    for name, rows in (("l", left), ("r", right)):
        tables.create(name, f"id INT, k INT, ts TIMESTAMP(3), {TIMED}", inserts(rows))
    query = f"""SELECT l.id, r.id FROM l {kind} r ON l.k = r.k AND l.id + r.id <> 9
        AND l.ts BETWEEN r.ts - INTERVAL '2' SECOND AND r.ts + INTERVAL '1' SECOND"""
    found = tables.insert("o", "a INT, b INT", query)
    pairs = [
        (a[0], b[0])
        for a in left
        for b in right
        if a[1] == b[1] is not None and a[0] + b[0] != 9 and -2 <= (a[2] - b[2]).total_seconds() <= 1
    ]
    expected: list[tuple[Any, ...]] = list(pairs)
    if kind in ("LEFT JOIN", "FULL JOIN"):
        expected += [(a[0], None) for a in left if all(one[0] != a[0] for one in pairs)]
    if kind in ("RIGHT JOIN", "FULL JOIN"):
        expected += [(None, b[0]) for b in right if all(one[1] != b[0] for one in pairs)]
    assert Counter(found) == Counter(inserts(expected))
    assert pairs


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_windows_behind_a_join_have_all_pairs(kind: str) -> None:
    """A pair comes with the time of the earlier row: a watermark that is not held back would make it late."""
    left, right = ([(number % 2, number, at(step * number)) for number in range(40)] for step in (2, 1))
    tables = Tables(circumstances=SMALL)
    for name, rows in (("l", left), ("r", right)):
        tables.create(name, f"k INT, n INT, ts TIMESTAMP(3), {TIMED}", inserts(rows))
        # Rows of both come in turn, so that the watermark goes on between them.
        tables.listed.halves[name] = 20
    tables.environment.execute_sql(
        f"""CREATE VIEW pairs AS SELECT l.ts, r.n FROM l {kind} r ON l.k = r.k
        AND l.ts BETWEEN r.ts - INTERVAL '15' SECOND AND r.ts + INTERVAL '4' SECOND"""
    )
    query = """SELECT window_end, COUNT(*), COUNT(n) FROM TABLE(TUMBLE(TABLE pairs, DESCRIPTOR(ts),
        INTERVAL '5' SECOND)) GROUP BY window_start, window_end"""
    found = Counter(tables.insert("o", "e TIMESTAMP(3), c BIGINT, d BIGINT", query))
    counts: Counter[Any] = Counter()
    paired: Counter[Any] = Counter()
    for a in left:
        partners = [b for b in right if a[0] == b[0] and -15 <= (a[2] - b[2]).total_seconds() <= 4]
        end = at((a[2] - at(0)).total_seconds() // 5 * 5 + 5)
        counts[end] += len(partners) or (kind != "JOIN")
        paired[end] += len(partners)
    assert found == Counter(inserts([(end, count, paired[end]) for end, count in counts.items() if count]))


def test_null_equals_nothing_in_an_interval_join() -> None:
    """Rows without a key would be paired with each other."""
    rows = [(None, 1, at(1)), (1, 2, at(2)), (None, 3, at(3))]
    tables = Tables(circumstances=SMALL)
    for name in ("l", "r"):
        tables.create(name, f"k INT, n INT, ts TIMESTAMP(3), {TIMED}", inserts(rows))
    query = """SELECT l.n, r.n FROM l JOIN r ON l.k = r.k
        AND l.ts BETWEEN r.ts - INTERVAL '9' SECOND AND r.ts + INTERVAL '9' SECOND"""
    assert Counter(tables.insert("o", "a INT, b INT", query)) == Counter(inserts([(2, 2)]))


def test_elements_of_collections_become_rows() -> None:
    """Arrays, arrays of rows, maps and multisets; empty ones and NULL, with and without their numbers."""
    rows = [
        (1, [1, None, 3], [{"x": 1, "y": "a"}, None], [("k", 1), ("l", 2)]),
        (2, None, None, None),
        (3, [], [], []),
        (4, [7], [{"x": 2, "y": None}], [("z", None)]),
    ]
    tables = Tables()
    tables.create("t", "a INT, arr ARRAY<INT>, ar ARRAY<ROW<x INT, y STRING>>, m MAP<STRING, INT>", inserts(rows))
    queries: Sequence[tuple[str, str, Sequence[tuple[Any, ...]]]] = (
        ("a INT, e INT", "SELECT a, e FROM t, UNNEST(arr) AS u(e)", [(1, 1), (1, None), (1, 3), (4, 7)]),
        ("a INT, e INT", "SELECT a, e FROM t, UNNEST(arr) AS u(e) WHERE e > 2", [(1, 3), (4, 7)]),
        ("a INT, e INT", "SELECT a, e FROM t, UNNEST(ARRAY[5]) AS u(e)", [(1, 5), (2, 5), (3, 5), (4, 5)]),
        (
            "a INT, e INT, n INT",
            "SELECT a, e, n FROM t LEFT JOIN UNNEST(arr) WITH ORDINALITY AS u(e, n) ON TRUE",
            [(1, 1, 1), (1, None, 2), (1, 3, 3), (2, None, None), (3, None, None), (4, 7, 1)],
        ),
        (
            "a INT, x INT, y STRING",
            "SELECT a, x, y FROM t, UNNEST(ar) AS u(x, y)",
            [(1, 1, "a"), (1, None, None), (4, 2, None)],
        ),
        (
            "a INT, k STRING, v INT",
            "SELECT a, k, v FROM t, UNNEST(m) AS u(k, v)",
            [(1, "k", 1), (1, "l", 2), (4, "z", None)],
        ),
    )
    for number, (columns, query, expected) in enumerate(queries):
        assert Counter(tables.insert(f"o{number}", columns, query)) == Counter(inserts(expected))


def test_several_inputs_in_one_join() -> None:
    """A multi-join has the table of the joins that it stands for, with rows that come and go."""
    random = Random(2)
    contents = []
    for _ in range(3):
        rows = [(random.choice([1, 2, 3]), random.randrange(5)) for _ in range(12)]
        changes = inserts(rows)
        changes += [("-D", row) for row in random.sample(rows, 4)]
        contents.append(changes)
    options = {"table.optimizer.multi-join.enabled": "true"}
    query = "SELECT a.k, a.n, b.n, c.n FROM a JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k AND b.n < c.n"
    for one in (SMALL, next(iter(crashing()))):
        tables = Tables(options, circumstances=one)
        for name, changes in zip("abc", contents, strict=True):
            tables.create(name, "k INT, n INT", changes, changelog="I,UB,UA,D")
        assert "MultiJoin" in str(tables.environment.explain_sql(query))
        found = table_of(tables.insert("o", "k INT, an INT, bn INT, cn INT", query))
        a, b, c = ([*table_of(changes).elements()] for changes in contents)
        expected = [
            (left[0], left[1], middle[1], right)
            for left in a
            for middle in b
            if left[0] == middle[0]
            for right in [one[1] for one in c if one[0] == left[0] and middle[1] < one[1]] or [None]
        ]
        assert found == Counter(expected)


TTL = {"table.exec.state.ttl": "5 s"}


@pytest.mark.parametrize(
    ("query", "without", "expected"),
    [
        (
            "SELECT l.n, r.n FROM l JOIN r ON l.k = r.k",
            [(1, 10), (1, 20), (2, 10), (2, 20)],
            [(1, 10), (2, 20)],
        ),
        (
            "SELECT /*+ STATE_TTL('l' = '0 s', 'r' = '5 s') */ l.n, r.n FROM l JOIN r ON l.k = r.k",
            [(1, 10), (1, 20), (2, 10), (2, 20)],
            [(1, 10), (1, 20), (2, 20)],
        ),
    ],
)
def test_rows_of_joins_are_forgotten(query: str, without: list[Any], expected: list[Any]) -> None:
    """After the time to live, which a hint may set for each input, a row finds no older partners."""
    for options, rows in (({}, without), (TTL, expected)):
        if "STATE_TTL" in query and not options:
            continue
        tables = Tables(options)
        for name, values in (("l", [("a", 1), ("a", 2)]), ("r", [("a", 10), ("a", 20)])):
            tables.create(name, "k STRING, n INT", inserts(values))
            tables.listed.halves[name] = 1
        assert Counter(tables.insert("o", "a INT, b INT", query)) == Counter(inserts(rows))


@pytest.mark.parametrize(
    ("query", "kept", "forgotten"),
    [
        ("ORDER BY n DESC) AS r FROM t) WHERE r = 1", ["+I5"], ["+I5", "+I3"]),
        ("ORDER BY n DESC, k) AS r FROM t) WHERE r <= 2", ["+I5", "+I3"], ["+I5", "+I3"]),
        ("ORDER BY p) AS r FROM t) WHERE r = 1", ["+I5"], ["+I5", "+I3"]),
        ("ORDER BY p DESC) AS r FROM t) WHERE r = 1", ["+I5", "-U5", "+U3"], ["+I5", "+I3"]),
    ],
)
def test_first_rows_are_forgotten(query: str, kept: list[str], forgotten: list[str]) -> None:
    """After the time to live a key begins again."""
    for options, expected in (({}, kept), (TTL, forgotten)):
        tables = Tables(options)
        tables.create("t", "k STRING, n INT, p AS PROCTIME()", inserts([("a", 5), ("a", 3)]))
        tables.listed.halves["t"] = 1
        found = tables.insert("o", "n INT", f"SELECT n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k {query}")
        assert [f"{kind}{row[0]}" for kind, row in found] == expected


def test_rows_before_upserts_are_forgotten() -> None:
    """After the time to live an upsert is the first row of its key; before it, one that is equal is given again."""
    rows = [(1, 5), (1, 5), (1, 6)]
    kept = ["+I5", "-U5", "+U6"]
    for options, expected in (({}, kept), (TTL, ["+I5", "-U5", "+U5", "+I6"])):
        tables = Tables(options, parallelism=1)
        changes: list[Change] = [("+U", row) for row in rows]
        tables.create("t", "k INT PRIMARY KEY NOT ENFORCED, n INT", changes, changelog="I,UA,D")
        tables.listed.halves["t"] = 2
        found = tables.insert("o", "k INT, n INT", "SELECT k, n FROM t")
        assert [f"{kind}{row[1]}" for kind, row in found] == expected
