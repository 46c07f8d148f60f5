"""Sessions, and windows of TIMESTAMP_LTZ in other zones than UTC, against plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.table.listed_tables import Tables, inserts, table_of
from tests.table.table_tests import at
from tests.table.test_execution import SMALL, START, TIMED, planner  # noqa: F401
from tests.table.test_mini_batch import failing

from penstock.hosts.simulator import Circumstances

GAP_S = 4
Rows = list[tuple[Any, ...]]


def moments(random: Random, count: int) -> Rows:
    """Return rows of key, number and time, with gaps, in the order of time but for a few seconds."""
    at, rows = 0, []
    for _ in range(count):
        at += random.choice([0, 1, 1, 2, 5])
        rows.append(
            (random.choice("ab"), random.randrange(50), START + timedelta(seconds=at + random.randrange(-2, 3)))
        )
    return rows


def sessions_of(rows: Rows, *, by_key: bool) -> dict[tuple[Any, ...], Rows]:
    """Return the rows of each session, by key (if sessions have one), start and end."""
    found: dict[tuple[Any, ...], Rows] = {}
    of_key: dict[Any, Rows] = defaultdict(list)
    for one in rows:
        of_key[one[0] if by_key else None].append(one)
    for key, of in of_key.items():
        session: Rows = []
        for one in [*sorted(of, key=lambda row: row[2]), (None, None, datetime.max)]:
            if session and one[2] - session[-1][2] > timedelta(seconds=GAP_S):
                found[key, session[0][2], session[-1][2] + timedelta(seconds=GAP_S)] = session
                session = []
            session.append(one)
    return found


def run(
    query: str, columns: str, rows: Rows, *, seed: int = 0, circumstances: Circumstances = SMALL
) -> tuple[Counter[Any], Tables]:
    """Run a query over rows."""
    tables = Tables(seed=seed, circumstances=circumstances)
    tables.create("t", TIMED, inserts(rows))
    return Counter(tables.insert("o", columns, query)), tables


AGGREGATED = "k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, s INT, d BIGINT"
TABLE_FUNCTION = f"""SELECT k, window_start, window_end, COUNT(*), SUM(n), COUNT(DISTINCT n)
    FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{GAP_S}' SECOND))
    GROUP BY k, window_start, window_end"""
GROUP_WINDOW = f"""SELECT k, SESSION_START(ts, INTERVAL '{GAP_S}' SECOND), SESSION_END(ts, INTERVAL '{GAP_S}' SECOND),
    COUNT(*), SUM(n), COUNT(DISTINCT n) FROM t GROUP BY k, SESSION(ts, INTERVAL '{GAP_S}' SECOND)"""


def aggregated(rows: Rows) -> Counter[Any]:
    """Return what both queries give."""
    expected = [
        (*bounds, len(of), sum(one[1] for one in of), len({one[1] for one in of}))
        for bounds, of in sessions_of(rows, by_key=True).items()
    ]
    return Counter(inserts(expected))


@pytest.mark.parametrize("query", [TABLE_FUNCTION, GROUP_WINDOW])
@pytest.mark.parametrize("seed", range(3))
def test_sessions_of_a_key_end_where_no_row_comes_for_the_gap(query: str, seed: int) -> None:
    """Each session gives one row, also where a row that comes later joins two sessions."""
    rows = moments(Random(seed), 80)
    found, _ = run(query, AGGREGATED, rows, seed=seed)
    assert found == aggregated(rows)


@pytest.mark.parametrize("partition", ["PARTITION BY k, ", ", "])
def test_rows_get_the_bounds_of_their_session(partition: str) -> None:
    """Without a partition, the sessions are those of all rows together."""
    rows = moments(Random(5), 60)
    # A table may get one rowtime attribute of a query.
    query = f"""SELECT k, n, CAST(ts AS TIMESTAMP(3)), window_start, window_end, window_time
        FROM TABLE(SESSION(TABLE t {partition} DESCRIPTOR(ts), INTERVAL '{GAP_S}' SECOND))""".replace("t ,", "t,")
    columns = "k STRING, n INT, ts TIMESTAMP(3), ws TIMESTAMP(3), we TIMESTAMP(3), wt TIMESTAMP(3)"
    found, _ = run(query, columns, rows)
    expected = [
        (*one, start, end, end - timedelta(milliseconds=1))
        for (_, start, end), of in sessions_of(rows, by_key=partition != ", ").items()
        for one in of
    ]
    assert found == Counter(inserts(expected))


@pytest.mark.parametrize("phases", ["ONE_PHASE", "TWO_PHASE"])
def test_rows_between_windows_that_slide_by_more_than_their_size_count_nowhere(phases: str) -> None:
    """Such a row failed the job."""
    tables = Tables({"table.optimizer.agg-phase-strategy": phases})
    rows = [("a", number, at(number)) for number in range(25)]
    tables.create("t", "k STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts", inserts(rows))
    size, slide = "INTERVAL '4' SECOND", "INTERVAL '10' SECOND"
    query = f"SELECT HOP_START(ts, {slide}, {size}), SUM(n) FROM t GROUP BY HOP(ts, {slide}, {size})"
    expected = [(at(start), sum(range(start, start + 4))) for start in (0, 10, 20)]
    assert table_of(tables.insert("o", "s TIMESTAMP(3), n INT", query)) == Counter(expected)


def test_a_late_row_counts_if_a_session_holds_it() -> None:
    """A row behind the watermark is dropped alone, and counted where it belongs to a session that has not fired."""
    at = [0, 60, 53, 57, 54, 100]
    rows: Rows = [("a", 1 << place, START + timedelta(seconds=second)) for place, second in enumerate(at)]
    query = f"""SELECT SUM(n) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{GAP_S}' SECOND))
        GROUP BY k, window_start, window_end"""
    # The watermark is at 55 behind the row at 60. 53 is not late, since its session lasts until 57, and gets 54.
    found, _ = run(query, "s INT", rows, circumstances=Circumstances())
    assert found == Counter(inserts([(1,), (2 + 4 + 8 + 16,), (32,)]))
    rows[2] = ("a", 4, START + timedelta(seconds=50))
    found, _ = run(query, "s INT", rows, circumstances=Circumstances())
    assert found == Counter(inserts([(1,), (2 + 8 + 16,), (32,)]))


@pytest.mark.parametrize("seed", range(3))
def test_sessions_continue_after_a_failure(seed: int) -> None:
    """Sessions in flight, and rows that wait for the end of theirs, are in checkpoints, and are given once."""
    rows = moments(Random(seed), 80)
    found, tables = run(TABLE_FUNCTION, AGGREGATED, rows, seed=seed, circumstances=failing(None))
    assert tables.executor.restarts
    assert found == aggregated(rows)
    query = f"""SELECT k, n, window_end FROM
        TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{GAP_S}' SECOND))"""
    found, tables = run(query, "k STRING, n INT, e TIMESTAMP(3)", rows, seed=seed, circumstances=failing(None))
    assert tables.executor.restarts
    by_session = sessions_of(rows, by_key=True).items()
    assert found == Counter(inserts([(*one[:2], end) for (_, _, end), of in by_session for one in of]))


@pytest.mark.parametrize("phases", ["ONE_PHASE", "TWO_PHASE"])
def test_windows_of_slices_continue_after_a_failure(phases: str) -> None:
    """What is aggregated before the exchange leaves before a barrier."""
    rows = moments(Random(7), 80)
    query = """SELECT k, window_end, COUNT(*), SUM(n), COUNT(DISTINCT n) FROM
        TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"""
    tables = Tables({"table.optimizer.agg-phase-strategy": phases}, circumstances=failing(None))
    tables.create("t", TIMED, inserts(rows))
    found = tables.insert("o", "k STRING, we TIMESTAMP(3), c BIGINT, s INT, d BIGINT", query)
    assert tables.executor.restarts
    of_windows: dict[Any, Rows] = defaultdict(list)
    for one in rows:
        seconds = int((one[2] - START).total_seconds()) // 10 * 10 + 10
        of_windows[one[0], START + timedelta(seconds=seconds)].append(one)
    expected = [
        (*key, len(of), sum(one[1] for one in of), len({one[1] for one in of})) for key, of in of_windows.items()
    ]
    assert Counter(found) == Counter(inserts(expected))


ZONES = ["Asia/Shanghai", "America/New_York", "Asia/Kolkata"]
QUERIES = {
    "table function": """SELECT window_start, window_end, COUNT(*)
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end""",
    "group window": """SELECT TUMBLE_START(ts, INTERVAL '1' DAY), TUMBLE_END(ts, INTERVAL '1' DAY), COUNT(*)
        FROM t GROUP BY TUMBLE(ts, INTERVAL '1' DAY)""",
    "rows": """SELECT window_start, window_end, COUNT(*) FROM (SELECT window_start, window_end, window_time
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))
        WHERE window_time = window_time) GROUP BY window_start, window_end""",
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("query", QUERIES)
def test_days_of_timestamp_ltz_are_those_of_the_zone_of_the_session(zone: str, query: str) -> None:
    """A window of a day begins at midnight where the session is, also on a day of 23 or 25 hours."""
    random = Random(zone)
    start = datetime(2024, 11, 1, tzinfo=UTC)
    rows = [(start + timedelta(minutes=30 * place + random.randrange(30)),) for place in range(48 * 4)]
    options = {"table.local-time-zone": zone, "table.optimizer.agg-phase-strategy": "TWO_PHASE"}
    tables = Tables(options, circumstances=SMALL)
    tables.create("t", "ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR", inserts(rows))
    found = tables.insert("o", "ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT", QUERIES[query])
    days = Counter(one[0].astimezone(ZoneInfo(zone)).replace(tzinfo=None).date() for one in rows)
    expected: Sequence[Any] = [
        (datetime(day.year, day.month, day.day), datetime(day.year, day.month, day.day) + timedelta(days=1), count)
        for day, count in days.items()
    ]
    final = Counter(row for kind, row in found if kind in ("+I", "+U"))
    final.subtract(row for kind, row in found if kind in ("-U", "-D"))
    assert +final == Counter(expected)
