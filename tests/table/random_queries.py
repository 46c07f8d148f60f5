"""Random queries that mean the same in Flink's SQL and in SQLite's, over tables of integers and texts with NULLs.

Left out is what differs: AVG of integers, aggregates without GROUP BY over no rows, division by zero, LIKE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

INT, BIGINT, STRING = "INT", "BIGINT", "STRING"
TABLES = {"t": (("a", INT), ("b", INT), ("s", STRING)), "u": (("c", INT), ("d", INT), ("x", STRING))}
DEPTH_MAX = 3
_MOSTLY = 0.7
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")

Fields = tuple[tuple[str, str], ...]
"""Names and types of columns."""


@dataclass(frozen=True)
class Relation:
    """A query and the columns that it has."""

    sql: str
    fields: Fields

    def of(self, *types: str) -> list[str]:
        """Return the columns of these types."""
        return [name for name, kind in self.fields if kind in types]


class Queries:
    """Makes queries, the same for the same seed."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._numbers = count()

    def query(self, depth: int = 0) -> Relation:
        """Return a query."""
        if depth >= DEPTH_MAX:
            return self._table()
        makers: Sequence[Callable[[int], Relation]] = (
            lambda depth: self._table(),
            self._project,
            self._project,
            self._group,
            self._group,
            self._join,
            self._join,
            self._semi_join,
            self._combine,
            self._distinct,
            self._top,
        )
        return self._random.choice(makers[1:] if depth == 0 else makers)(depth + 1)

    def _new(self, letter: str = "c") -> str:
        return f"{letter}{next(self._numbers)}"

    def _table(self) -> Relation:
        name = self._random.choice(list(TABLES))
        return Relation(f"SELECT * FROM {name}", TABLES[name])

    def _from(self, depth: int) -> tuple[str, Relation]:
        """Return a name of a subquery, and what it has under that name."""
        inner, alias = self.query(depth), self._new("r")
        return f"({inner.sql}) AS {alias}", Relation(inner.sql, tuple((f"{alias}.{n}", t) for n, t in inner.fields))

    def _where(self, relation: Relation, chance: float = 0.5) -> str:
        return f" WHERE {self._condition(relation)}" if self._random.random() < chance else ""

    # Expressions.

    def _integer(self, relation: Relation, depth: int = 0) -> str:
        columns = relation.of(INT, BIGINT)
        if not columns or self._random.random() < 0.1:
            return str(self._random.randrange(-3, 8))
        if depth > 1 or self._random.random() < 0.5:
            return self._random.choice(columns)
        inner = [self._integer(relation, depth + 1) for _ in range(2)]
        return self._random.choice(
            [
                f"({inner[0]} + {inner[1]})",
                f"({inner[0]} - {inner[1]})",
                f"({inner[0]} * 2)",
                f"COALESCE({inner[0]}, {inner[1]})",
                f"NULLIF({inner[0]}, {inner[1]})",
                f"CASE WHEN {self._condition(relation, depth + 1)} THEN {inner[0]} ELSE {inner[1]} END",
                f"ABS({inner[0]})",
            ]
        )

    def _text(self, relation: Relation) -> str:
        columns = relation.of(STRING)
        if not columns:
            return f"'{self._random.choice('xyz')}'"
        one, other = (self._random.choice(columns) for _ in range(2))
        return self._random.choice([one, one, f"UPPER({one})", f"({one} || {other})", f"COALESCE({one}, 'z')"])

    def _condition(self, relation: Relation, depth: int = 0) -> str:
        if depth < 2 and self._random.random() < 0.3:
            one, other = (self._condition(relation, depth + 1) for _ in range(2))
            return self._random.choice([f"({one} AND {other})", f"({one} OR {other})", f"(NOT {one})"])
        number = self._integer(relation, 2)
        if relation.of(STRING) and self._random.random() < 0.3:
            text = self._random.choice(relation.of(STRING))
            return self._random.choice([f"{text} = 'x'", f"{text} <> 'y'", f"{text} > 'x'", f"{text} IN ('x', 'z')"])
        return self._random.choice(
            [
                f"({number} {self._random.choice(_COMPARISONS)} {self._integer(relation, 1)})",
                f"({number} IS NULL)",
                f"({number} IS NOT NULL)",
                f"({number} IN (1, 2, 5))",
                f"({number} BETWEEN 0 AND 3)",
            ]
        )

    # Queries.

    def _project(self, depth: int) -> Relation:
        source, inner = self._from(depth)
        chosen: list[tuple[str, str, str]] = []
        for _ in range(self._random.randint(1, 3)):
            kind = self._random.choice([BIGINT, BIGINT, STRING])
            made = self._text(inner) if kind == STRING else f"CAST({self._integer(inner)} AS BIGINT)"
            chosen.append((made, self._new(), kind))
        return self._select(chosen, f"FROM {source}{self._where(inner)}")

    def _select(self, chosen: Sequence[tuple[str, str, str]], rest: str, distinct: str = "") -> Relation:
        columns = ", ".join(f"{made} AS {name}" for made, name, _ in chosen)
        return Relation(f"SELECT {distinct}{columns} {rest}", tuple((name, kind) for _, name, kind in chosen))

    def _group(self, depth: int) -> Relation:
        source, inner = self._from(depth)
        keys = self._random.sample(inner.fields, self._random.randint(1, min(2, len(inner.fields))))
        chosen = [(name, self._new(), kind) for name, kind in keys]
        chosen += [(self._aggregate(inner), self._new(), BIGINT) for _ in range(self._random.randint(1, 3))]
        having = f" HAVING {self._aggregate(inner)} >= 2" if self._random.random() < 0.3 else ""
        names = ", ".join(name for name, _ in keys)
        return self._select(chosen, f"FROM {source}{self._where(inner, 0.3)} GROUP BY {names}{having}")

    def _aggregate(self, inner: Relation) -> str:
        number, distinct = self._integer(inner, 1), self._random.choice(["", "", "DISTINCT "])
        made = self._random.choice(
            ["COUNT(*)", f"COUNT({distinct}{self._random.choice(inner.fields)[0]})"]
            + [f"SUM({distinct}CAST({number} AS BIGINT))"] * 2
            + [f"MIN(CAST({number} AS BIGINT))", f"MAX(CAST({number} AS BIGINT))"]
        )
        return f"{made} FILTER (WHERE {self._condition(inner)})" if self._random.random() < 0.2 else made

    def _join(self, depth: int) -> Relation:
        (left, one), (right, other) = self._from(depth), self._from(depth)
        kind = self._random.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        both = Relation("", one.fields + other.fields)
        on = self._equal(one, other)
        if kind != "FULL JOIN" and self._random.random() < 0.3:
            on += f" AND {self._condition(both)}"
        fields = self._random.sample(both.fields, min(4, len(both.fields)))
        chosen = [(name, self._new(), kind) for name, kind in fields]
        return self._select(chosen, f"FROM {left} {kind} {right} ON {on}{self._where(both, 0.2)}")

    def _equal(self, one: Relation, other: Relation) -> str:
        """Return a condition that two columns of one type are equal."""
        for types in self._random.sample([(INT, BIGINT), (STRING,)], 2):
            if one.of(*types) and other.of(*types):
                return f"{self._random.choice(one.of(*types))} = {self._random.choice(other.of(*types))}"
        return f"{self._text(one)} = {self._text(other)}"

    def _semi_join(self, depth: int) -> Relation:
        (left, one), (right, other) = self._from(depth), self._from(depth)
        word = self._random.choice(["EXISTS", "NOT EXISTS"])
        chosen = [(name, self._new(), kind) for name, kind in one.fields]
        inner = f"SELECT 1 FROM {right} WHERE {self._equal(one, other)}"
        return self._select(chosen, f"FROM {left} WHERE {word} ({inner})")

    def _combine(self, depth: int) -> Relation:
        word = self._random.choice(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])
        names = [self._new(), self._new()]
        sides = []
        for _ in range(2):
            source, inner = self._from(depth)
            made = [f"CAST({self._integer(inner)} AS BIGINT)", self._text(inner)]
            columns = ", ".join(f"{one} AS {name}" for one, name in zip(made, names, strict=True))
            sides.append(f"SELECT {columns} FROM {source}{self._where(inner, 0.3)}")
        return Relation(f"{sides[0]} {word} {sides[1]}", ((names[0], BIGINT), (names[1], STRING)))

    def _distinct(self, depth: int) -> Relation:
        source, inner = self._from(depth)
        fields = self._random.sample(inner.fields, min(2, len(inner.fields)))
        return self._select([(n, self._new(), k) for n, k in fields], f"FROM {source}{self._where(inner)}", "DISTINCT ")

    def _top(self, depth: int) -> Relation:
        source, inner = self._from(depth)
        chosen = [(name, self._new(), kind) for name, kind in inner.fields]
        keys = self._random.sample(inner.fields, self._random.randint(0, 1))
        partition = f"PARTITION BY {keys[0][0]} " if keys else ""
        # All columns: rows that tie are equal.
        order = self._random.sample(inner.fields, len(inner.fields))
        by = ", ".join(f"{name} {self._random.choice(['ASC', 'DESC'])}" for name, _ in order)
        number, alias = self._new(), self._new("r")
        columns = ", ".join(f"{made} AS {name}" for made, name, _ in chosen)
        ranked = f"SELECT {columns}, ROW_NUMBER() OVER ({partition}ORDER BY {by}) AS {number} FROM {source}"
        kept = [(name, self._new(), kind) for _, name, kind in chosen]
        if self._random.random() < 0.3:
            kept.append((number, self._new(), BIGINT))
        return self._select(kept, f"FROM ({ranked}) AS {alias} WHERE {number} <= {self._random.randint(1, 3)}")
