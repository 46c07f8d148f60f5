"""Matches of MATCH_RECOGNIZE by plain Python: all ways to match from each row are tried, with nothing kept between."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.unit.cep.row_patterns import Parser, Value

Row = dict[str, Any]
Taken = tuple[tuple[str, Row], ...]
"""The rows of a match with their variables."""


class Element(NamedTuple):
    """A variable of a pattern with its quantifier; `most` None: no bound."""

    name: str
    least: int = 1
    most: int | None = 1
    greedy: bool = True

    @property
    def text(self) -> str:
        """The element in SQL."""
        if (self.least, self.most) == (1, 1):
            return self.name
        short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((self.least, self.most))
        quantifier = short or f"{{{self.least},{'' if self.most is None else self.most}}}"
        return self.name + quantifier + ("" if self.greedy else "?")


@dataclass
class Statement:
    """The clauses of a statement. `define` and `measures`: expressions of SQL, by variable and by name."""

    elements: Sequence[Element]
    define: Mapping[str, str]
    measures: Mapping[str, str]
    skip: str = "PAST LAST ROW"
    within_ms: int | None = None
    _is_open: bool = False
    """Whether a partial match has come to the end of the rows."""
    _conditions: dict[str, Value] = field(default_factory=dict)

    def sql(self, partition: str, order_by: str) -> str:
        """Return the clause of the statement."""
        measures = ", ".join(f"{text} AS {name}" for name, text in self.measures.items())
        define = ", ".join(f"{name} AS {text}" for name, text in self.define.items())
        within = "" if self.within_ms is None else f"WITHIN INTERVAL '{self.within_ms // 1_000}' SECOND"
        pattern = " ".join(one.text for one in self.elements)
        return (
            f"MATCH_RECOGNIZE (PARTITION BY {partition} ORDER BY {order_by} MEASURES {measures} ONE ROW PER MATCH "
            f"AFTER MATCH SKIP {self.skip} PATTERN ({pattern}) {within}{' DEFINE ' if define else ''}{define})"
        )

    def results(self, rows: Sequence[Row], time: str) -> Iterator[list[Any]]:
        """Yield the measures of each match in the ordered rows of a key. `time`: the column with it (ms)."""
        values = [Parser(text).either() for text in self.measures.values()]
        start = 0
        while start < len(rows):
            self._is_open = False
            found = min(self._matches(rows, start, time), key=len, default=None)
            if found is None:
                if self._is_open and self.within_ms is None:
                    # Matches behind it wait for this one, which rows to come might complete.
                    return
                start += 1
                continue
            taken = found
            yield [value(lambda name, taken=taken: rows_of(taken, name), None) for value in values]
            start += self._skipped(found)

    def _skipped(self, taken: Taken) -> int:
        """Return how many rows behind the start of a match the next one may begin."""
        match self.skip.split():
            case ["PAST", *_]:
                return len(taken)
            case ["TO", "NEXT", _]:
                return 1
            case ["TO", end, name]:
                places = [place for place, (of, _) in enumerate(taken) if of == name]
                return places[0 if end == "FIRST" else -1]
        raise ValueError(self.skip)

    def _matches(self, rows: Sequence[Row], start: int, time: str) -> Iterator[Taken]:
        """Yield all matches that begin with a row: those that stay in a loop before those that leave it."""

        def holds(name: str, taken: Taken, row: Row) -> bool:
            if self.within_ms is not None and row[time] - rows[start][time] >= self.within_ms:
                return False
            if name not in self.define:
                return True
            if name not in self._conditions:
                self._conditions[name] = Parser(self.define[name]).either()
            return self._conditions[name](lambda of: rows_of((*taken, (name, row)), of), None) is True

        def walk(at: int, number: int, count: int, taken: Taken) -> Iterator[Taken]:
            one = self.elements[number]
            is_last = number == len(self.elements) - 1
            if count >= one.least and all(not later.least for later in self.elements[number + 1 :]) and taken:
                yield taken
            self._is_open |= at == len(rows)
            fits = at < len(rows) and holds(one.name, taken, rows[at])
            if fits and (one.most is None or count < one.most):
                yield from walk(at + 1, number, count + 1, (*taken, (one.name, rows[at])))
            # As in Flink, a greedy variable does not leave a row that it would take to the next one: not even if it has
            # as many rows as it may have.
            is_greedy = one.greedy and one.least != one.most and (one.least, one.most) != (0, 1)
            if not is_last and count >= one.least and not (is_greedy and fits):
                yield from walk(at, number + 1, 0, taken)

        return walk(start, 0, 0, ())


def rows_of(taken: Taken, name: str | None) -> list[Row]:
    """Return the rows of a variable, or all of them."""
    return [row for of, row in taken if name in (None, of)]


def by_key(rows: Sequence[Row], key: str, order: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Return the rows of each key, in order."""
    found: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=order):
        found.setdefault(operator.itemgetter(key)(row), []).append(row)
    return found
