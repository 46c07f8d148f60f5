"""Random programs of event time, each with the rows that Python computes for it.

Every stream has the columns k, n and its time, ts, so that any step can follow any other one. No row of a table is
late, so neither the order of rows nor the moment of a watermark matters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from tests.table.listed_tables import Change, Tables, inserts
from tests.table.table_tests import START, at

Rows = list[tuple[Any, ...]]
COLUMNS = "k STRING, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '9' SECOND"
VERSIONS = f"k STRING PRIMARY KEY NOT ENFORCED, {COLUMNS.partition(', ')[2]}"
STREAM = "k STRING, n BIGINT, ts TIMESTAMP(3)"
WINDOWED = "k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, s BIGINT, mn BIGINT, mx BIGINT, d BIGINT"
DEPTH_MAX = 3
_MS = timedelta(milliseconds=1)
_KEYS = ["a", "a", "b", "", "ü", None]


class Stream(NamedTuple):
    """A view, and its rows."""

    view: str
    rows: Rows


class Result(NamedTuple):
    """A query, the columns of its rows, and these."""

    query: str
    columns: str
    rows: Rows


class Window(NamedTuple):
    """A window function of seconds: its SQL behind the table, and the starts and ends of a second's windows."""

    kind: str
    sizes: tuple[int, ...]
    offset: int = 0

    def sql(self, view: str) -> str:
        """Return the table function over a view."""
        offset = f", INTERVAL '{self.offset}' SECOND" if self.offset else ""
        sizes = ", ".join(f"INTERVAL '{size}' SECOND" for size in self.sizes)
        return f"TABLE({self.kind}(TABLE {view}, DESCRIPTOR(ts), {sizes}{offset}))"

    def of(self, time: Any) -> list[tuple[Any, Any]]:
        """Return the windows of a time."""
        second = (time - START - timedelta(seconds=self.offset)) // timedelta(seconds=1)
        size, step = self.sizes[-1], self.sizes[0]
        if self.kind == "TUMBLE":
            spans = [(second // size * size, second // size * size + size)]
        elif self.kind == "HOP":
            spans = [(start, start + size) for start in range((second - size) // step * step + step, second + 1, step)]
        else:
            start = second // size * size
            spans = [(start, end) for end in range(second // step * step + step, start + size + 1, step)]
        return [(at(self.offset + start), at(self.offset + end)) for start, end in spans]


class TimedPrograms:
    """Makes programs, the same for the same seed, over the tables `t0`, `t1` and `v`."""

    def __init__(self, random: Random, tables: Tables) -> None:
        self._random = random
        self._tables = tables
        self._views = 0
        self._sources = [self._rows(random.randint(4, 45)) for _ in range(2)]
        self._versions = self._changes()
        for number, rows in enumerate(self._sources):
            tables.create(f"t{number}", COLUMNS, inserts(rows))
        tables.create("v", VERSIONS, self._versions, changelog="I,UA,D")
        if random.random() < 0.6:
            # Rows of all tables come in turn, so that watermarks go on between them.
            tables.listed.halves.update({"t0": 2, "t1": 2, "v": 2})

    def result(self) -> Result:
        """Return a program."""
        makers = (self._windows, self._windows, self._sets, self._top, self._window_join, self._group, self._rows_of)
        return self._random.choice(makers)(self.stream())

    def stream(self, depth: int = 0) -> Stream:
        """Return a stream."""
        makers: Sequence[Callable[[int], Stream]] = (
            self._filtered,
            self._aggregated,
            self._aggregated,
            self._sessions,
            self._joined_in_time,
            self._joined_in_time,
            self._versioned,
            self._union,
            self._best,
        )
        if depth >= DEPTH_MAX or (depth and self._random.random() < 0.3):
            number = self._random.randrange(2)
            return Stream(f"t{number}", self._sources[number])
        return self._random.choice(makers)(depth + 1)

    # Tables.

    def _rows(self, count: int) -> Rows:
        pace = self._random.choice([0, 1, 2, 5])
        return [
            (
                self._random.choice(_KEYS),
                self._random.choice([None, *range(-3, 9)]),
                at(pace * place + self._random.randrange(-4, 5)) + self._random.choice([0, 1, 999]) * _MS,
            )
            for place in range(count)
        ]

    def _changes(self) -> list[Change]:
        changes: list[Change] = []
        there: set[Any] = set()
        for second in range(0, 60, self._random.choice([1, 3, 7])):
            key = self._random.choice(["a", "b", "", "ü"])
            row = (key, second, at(second))
            if key in there and self._random.random() < 0.3:
                changes.append(("-D", row))
                there.discard(key)
            else:
                changes.append(("+U" if key in there else "+I", row))
                there.add(key)
        return changes

    # Streams.

    def _view(self, query: str, rows: Rows) -> Stream:
        self._views += 1
        name = f"s{self._views}"
        self._tables.environment.execute_sql(f"CREATE VIEW {name} AS {query}")
        return Stream(name, rows)

    def _filtered(self, depth: int) -> Stream:
        view, rows = self.stream(depth)
        return self._view(
            f"SELECT k, n * 2 AS n, ts FROM {view} WHERE n <> 3 OR k = 'a'",
            [(k, None if n is None else n * 2, ts) for k, n, ts in rows if (n is not None and n != 3) or k == "a"],
        )

    def _window(self) -> Window:
        return self._random.choice(
            [
                Window("TUMBLE", (5,)),
                Window("TUMBLE", (12,), 5),
                Window("HOP", (4, 12)),
                Window("HOP", (5, 10), 2),
                Window("CUMULATE", (3, 9)),
                Window("CUMULATE", (5, 20)),
            ]
        )

    def _aggregated(self, depth: int) -> Stream:
        view, rows = self.stream(depth)
        window = self._window()
        query = f"""SELECT k, SUM(n) AS n, window_time AS ts FROM {window.sql(view)}
            GROUP BY k, window_start, window_end, window_time"""
        groups = _by_window(window, rows, lambda row: row[0])
        return self._view(query, [(key, _sum(of), end - _MS) for (key, _, end), of in groups.items()])

    def _sessions(self, depth: int) -> Stream:
        view, rows = self.stream(depth)
        gap = self._random.choice([2, 5])
        query = f"""SELECT k, SUM(n) AS n, window_time AS ts FROM TABLE(SESSION(TABLE {view} PARTITION BY k,
            DESCRIPTOR(ts), INTERVAL '{gap}' SECOND)) GROUP BY k, window_start, window_end, window_time"""
        return self._view(
            query,
            [
                (session[0][0], _sum(session), session[-1][2] + timedelta(seconds=gap) - _MS)
                for session in _sessions_of(rows, timedelta(seconds=gap))
            ],
        )

    def _joined_in_time(self, depth: int) -> Stream:
        left, right = self.stream(depth), self.stream(depth)
        kind = self._random.choice(["JOIN", "JOIN", "LEFT JOIN"])
        lower, upper = self._random.choice([(-5, 0), (0, 8), (-20, 20), (3, 6), (-9, -4), (0, 0)])
        query = f"""SELECT l.k, l.n + COALESCE(r.n, 7) AS n, l.ts FROM {left.view} AS l {kind} {right.view} AS r
            ON l.k = r.k AND l.ts BETWEEN r.ts + INTERVAL '{lower}' SECOND AND r.ts + INTERVAL '{upper}' SECOND"""
        rows: Rows = []
        for k, n, ts in left.rows:
            found = [
                one[1]
                for one in right.rows
                if k == one[0] is not None and timedelta(seconds=lower) <= ts - one[2] <= timedelta(seconds=upper)
            ]
            partners = found or ([None] if kind == "LEFT JOIN" else [])
            rows += [(k, None if n is None else n + (7 if m is None else m), ts) for m in partners]
        return self._view(query, rows)

    def _versioned(self, depth: int) -> Stream:
        view, rows = self.stream(depth)
        query = f"""SELECT l.k, COALESCE(r.n, l.n) AS n, l.ts FROM {view} AS l
            LEFT JOIN v FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k"""
        found: Rows = []
        for k, n, ts in rows:
            upto = [(kind, row) for kind, row in self._versions if row[0] == k and row[2] <= ts]
            found.append((k, upto[-1][1][1] if upto and upto[-1][0] != "-D" else n, ts))
        return self._view(query, found)

    def _union(self, depth: int) -> Stream:
        one, other = self.stream(depth), self.stream(depth)
        query = f"SELECT k, n, ts FROM {one.view} UNION ALL SELECT k, n, ts FROM {other.view}"
        return self._view(query, one.rows + other.rows)

    def _best(self, depth: int) -> Stream:
        view, rows = self.stream(depth)
        window, last = self._window(), self._random.randint(1, 2)
        query = f"""SELECT k, n, window_time AS ts FROM (SELECT k, n, window_time, ROW_NUMBER() OVER (
            PARTITION BY k, window_start, window_end ORDER BY n DESC) AS r FROM {window.sql(view)}) WHERE r <= {last}"""
        found: Rows = []
        for (key, _, end), of in _by_window(window, rows, lambda row: row[0]).items():
            found += [(key, n, end - _MS) for n in sorted((row[1] for row in of), key=_descending)[:last]]
        return self._view(query, found)

    # Results.

    def _windows(self, stream: Stream) -> Result:
        window = self._window()
        query = f"""SELECT k, window_start, window_end, COUNT(*), SUM(n), MIN(n), MAX(n), COUNT(DISTINCT n)
            FROM {window.sql(stream.view)} GROUP BY k, window_start, window_end"""
        groups = _by_window(window, stream.rows, lambda row: row[0])
        return Result(query, WINDOWED, [(*key, *_aggregates(of)) for key, of in groups.items()])

    def _sets(self, stream: Stream) -> Result:
        window = self._window()
        query = f"""SELECT k, window_start, window_end, COUNT(*), SUM(n), MIN(n), MAX(n), COUNT(DISTINCT n)
            FROM {window.sql(stream.view)} GROUP BY window_start, window_end, GROUPING SETS ((k), ())"""
        rows = [
            (*key, *_aggregates(of))
            for key_of in (lambda row: row[0], lambda row: None)
            for key, of in _by_window(window, stream.rows, key_of).items()
        ]
        return Result(query, WINDOWED, rows)

    def _top(self, stream: Stream) -> Result:
        window = self._window()
        query = f"""SELECT n, window_end, r FROM (SELECT n, window_end, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end ORDER BY n DESC) AS r FROM {window.sql(stream.view)}) WHERE r <= 3"""
        found: Rows = []
        for (_, _, end), of in _by_window(window, stream.rows, lambda row: None).items():
            ordered = sorted((row[1] for row in of), key=_descending)[:3]
            found += [(n, end, place + 1) for place, n in enumerate(ordered)]
        return Result(query, "n BIGINT, e TIMESTAMP(3), r BIGINT", found)

    def _window_join(self, stream: Stream) -> Result:
        other, window = self.stream(1), self._window()
        kind = self._random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        query = f"""SELECT l.k, l.n, r.k, r.n, COALESCE(l.window_end, r.window_end)
            FROM (SELECT * FROM {window.sql(stream.view)}) AS l {kind} (SELECT * FROM {window.sql(other.view)}) AS r
            ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"""
        left, right = (
            [(k, n, end) for k, n, ts in rows for _, end in window.of(ts)] for rows in (stream.rows, other.rows)
        )
        pairs = [(a, b) for a in left for b in right if a[0] == b[0] is not None and a[2] == b[2]]
        found = [(*a[:2], *b[:2], a[2]) for a, b in pairs]
        if kind in ("LEFT JOIN", "FULL JOIN"):
            joined = {a for a, _ in pairs}
            found += [(*a[:2], None, None, a[2]) for a in left if a not in joined]
        if kind in ("RIGHT JOIN", "FULL JOIN"):
            joined = {b for _, b in pairs}
            found += [(None, None, *b) for b in right if b not in joined]
        return Result(query, "a STRING, n BIGINT, b STRING, m BIGINT, e TIMESTAMP(3)", found)

    def _group(self, stream: Stream) -> Result:
        query = f"SELECT k, COUNT(*), SUM(n), MIN(n), MAX(n), COUNT(DISTINCT n) FROM {stream.view} GROUP BY k"
        groups: dict[Any, Rows] = defaultdict(list)
        for row in stream.rows:
            groups[row[0]].append(row)
        columns = "k STRING, c BIGINT, s BIGINT, mn BIGINT, mx BIGINT, d BIGINT"
        return Result(query, columns, [(key, *_aggregates(of)) for key, of in groups.items()])

    def _rows_of(self, stream: Stream) -> Result:
        return Result(f"SELECT k, n, ts FROM {stream.view}", STREAM, stream.rows)


def _by_window(window: Window, rows: Rows, key_of: Callable[[Any], Any]) -> dict[tuple[Any, ...], Rows]:
    groups: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for row in rows:
        for bounds in window.of(row[2]):
            groups[key_of(row), *bounds].append(row)
    return groups


def _sessions_of(rows: Rows, gap: timedelta) -> Iterator[Rows]:
    by_key: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        by_key[row[0]].append(row)
    for of in by_key.values():
        session: Rows = []
        for row in sorted(of, key=lambda row: row[2]):
            if session and row[2] - session[-1][2] > gap:
                yield session
                session = []
            session.append(row)
        yield session


def _numbers(rows: Rows) -> list[int]:
    return [row[1] for row in rows if row[1] is not None]


def _sum(rows: Rows) -> int | None:
    numbers = _numbers(rows)
    return sum(numbers) if numbers else None


def _aggregates(rows: Rows) -> tuple[Any, ...]:
    numbers = _numbers(rows)
    return len(rows), _sum(rows), min(numbers, default=None), max(numbers, default=None), len(set(numbers))


def _descending(number: int | None) -> tuple[bool, int]:
    """NULL is the lowest value."""
    return number is None, -(number or 0)
