"""Recorded statements with MATCH_RECOGNIZE as patterns, to run them on the automaton: as much of SQL as they need.

What Flink's planner refuses is the planner's part and not here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from penstock.cep import AfterMatchSkipStrategy, Pattern
from penstock.cep.automata import automaton_of
from penstock.cep.partial_matches import PartialMatches

Row = dict[str, Any]
Rows = Callable[[str | None], Sequence[Row]]
"""The rows of a variable, or of the whole match for None."""
Value = Callable[[Rows, Row | None], Any]
"""An expression, over the rows of a match, or within an aggregate over one of them."""

TOKEN = re.compile(r"\s*(?:(\d+\.?\d*)|'([^']*)'|([A-Za-z_]\w*)|(<=|>=|<>|[-+*/=<>(),.]))")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "SUM": lambda values: sum(values) if values else None,
    "AVG": lambda values: sum(values) / len(values) if values else None,
    "COUNT": len,
    "MIN": lambda values: min(values, default=None),
    "MAX": lambda values: max(values, default=None),
}


class Parser:
    """A recursive descent over one expression."""

    def __init__(self, text: str) -> None:
        self.tokens: list[Any] = []
        self.variables: list[str | None] = []
        for number, quoted, name, sign in TOKEN.findall(text):
            self.tokens.append(float(number) if number else ("text", quoted) if not (name or sign) else name or sign)
        self.position = 0

    def peek(self) -> Any:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self, *expected: Any) -> Any:
        if self.peek() is None or (expected and self.peek() not in expected):
            return None
        self.position += 1
        return self.tokens[self.position - 1]

    def either(self) -> Value:
        left = self.both()
        while self.take("OR"):
            left = _either(left, self.both())
        return left

    def both(self) -> Value:
        left = self.compared()
        while self.take("AND"):
            left = _both(left, self.compared())
        return left

    def compared(self) -> Value:
        left = self.chain(lambda: self.chain(self.primary, "*", "/"), "+", "-")
        if self.take("IS"):
            wanted = not self.take("NOT")
            self.take("NULL")
            return lambda rows, row: (left(rows, row) is None) is wanted
        if self.take("IN"):
            self.take("(")
            among = [self.take()[1]]
            while self.take(","):
                among.append(self.take()[1])
            self.take(")")
            return lambda rows, row: left(rows, row) in among
        sign = self.take("=", "<>", "<", "<=", ">", ">=")
        return left if sign is None else _applied(OPERATORS[sign], left, self.chain(self.primary, "+", "-"))

    def chain(self, part: Callable[[], Value], *signs: str) -> Value:
        left = part()
        while sign := self.take(*signs):
            left = _applied(OPERATORS[sign], left, part())
        return left

    def primary(self) -> Value:
        token = self.take()
        if token == "(":
            inner = self.either()
            self.take(")")
            return inner
        if isinstance(token, float | tuple):
            constant = token if isinstance(token, float) else token[1]
            return lambda rows, row: constant
        if self.take("("):
            return self.function(token)
        variable, column = (token, self.take()) if self.take(".") else (None, token)
        self.variables.append(variable)
        return lambda rows, row: _column(rows(variable) if row is None else [row], column)

    def function(self, name: str) -> Value:
        before = len(self.variables)
        inner: Value = (lambda rows, row: 1) if self.take("*") else self.either()
        offset = int(self.take()) if self.take(",") else 0
        self.take(")")
        variable = next(iter(self.variables[before:]), None)
        if name in AGGREGATES:
            return lambda rows, row: AGGREGATES[name](
                [value for each in rows(variable) if (value := inner(rows, each)) is not None]
            )
        return lambda rows, row: _at(rows, rows(variable), inner, offset if name == "FIRST" else -1 - offset)


def _column(rows: Sequence[Row], column: str) -> Any:
    return rows[-1][column] if rows else None


def _at(rows: Rows, among: Sequence[Row], inner: Value, position: int) -> Any:
    return inner(rows, among[position]) if -len(among) <= position < len(among) else None


def _applied(compute: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    def applied(rows: Rows, row: Row | None) -> Any:
        first, second = left(rows, row), right(rows, row)
        return None if first is None or second is None else compute(first, second)

    return applied


def _both(left: Value, right: Value) -> Value:
    def both(rows: Rows, row: Row | None) -> Any:
        values = (left(rows, row), right(rows, row))
        return False if False in values else None if None in values else True

    return both


def _either(left: Value, right: Value) -> Value:
    def either(rows: Rows, row: Row | None) -> Any:
        values = (left(rows, row), right(rows, row))
        return True if True in values else None if None in values else False

    return either


ELEMENT = re.compile(r"(\w+)(\*\?|\*|\+|\?|\{\d*,?\d*\})?")


def pattern_of(case: dict[str, Any]) -> Pattern[Row, Row]:
    """The pattern of a statement: strict, greedy as Flink has it."""
    pattern: Any = None
    elements = ELEMENT.findall(case["pattern"])
    for name, quantifier in elements:
        pattern = Pattern.begin(name, _strategy(case["skip"])) if pattern is None else pattern.next(name)
        if name in case["define"]:
            pattern.where(
                _condition(case["define"][name], name, [found for found, _ in ELEMENT.findall(case["pattern"])])
            )
        _quantify(pattern, quantifier)
    if case["within"]:
        count, unit = re.findall(r"'(\d+)' (\w+)", case["within"])[0]
        pattern.within(int(count) * {"HOUR": 3_600_000, "SECOND": 1_000}[unit])
    built: Pattern[Row, Row] = pattern
    return built


def _quantify(pattern: Any, quantifier: str) -> None:
    if quantifier == "?":
        pattern.optional()
    elif quantifier:
        least, comma, most = quantifier.strip("{}").partition(",")
        if quantifier[0] in "*+":
            pattern.one_or_more()
        elif comma and not most:
            pattern.times_or_more(int(least))
        else:
            pattern.times(int(least), int(most) if most else None)
        pattern.consecutive()
        if quantifier[0] == "*":
            pattern.optional()
        if quantifier != "*?" and (comma or quantifier[0] in "*+"):
            pattern.greedy()


def _strategy(skip: str | None) -> AfterMatchSkipStrategy:
    match (skip or "TO NEXT ROW").split():
        case ["PAST", *_]:
            return AfterMatchSkipStrategy.skip_past_last_event()
        case ["TO", "NEXT", _]:
            return AfterMatchSkipStrategy.skip_to_next()
        case ["TO", "FIRST", name]:
            return AfterMatchSkipStrategy.skip_to_first(name).throw_exception_on_miss()
        case ["TO", "LAST", name]:
            return AfterMatchSkipStrategy.skip_to_last(name).throw_exception_on_miss()
    raise ValueError(skip)


def _condition(text: str, defined: str, names: list[str]) -> Callable[[Row, Any], bool]:
    value = Parser(text).either()

    def holds(row: Row, ctx: Any) -> bool:
        def rows(variable: str | None) -> list[Row]:
            taken = [each for name in names if variable in (None, name) for each in ctx.get_events_for_pattern(name)]
            return [*taken, row] if variable in (None, defined) else taken

        return value(rows, None) is True

    return holds


def results_of(case: dict[str, Any]) -> list[list[Any]]:
    """The rows that the statement gives."""
    automaton = automaton_of(pattern_of(case))
    measures = [Parser(text).either() for text in case["measures"].values()]
    keys = [name.strip() for name in case["partition_by"].split(",")] if case["partition_by"] else []
    found = []

    def key_of(row: Row) -> list[Any]:
        return [row[key] for key in keys]

    rows = [dict(zip(case["columns"], values, strict=True)) for values in case["rows"]]
    for key, of_key in groupby(
        sorted(_ordered(rows, case["order_by"]), key=lambda row: list(map(str, key_of(row)))), key_of
    ):
        partial = PartialMatches()
        matches = []
        for row in of_key:
            time = int(row["t"] * 1_000)
            matches += automaton.advance_time(partial, time)[0]
            matches += automaton.process(partial, row, time, automaton.bits(row))
        matches += automaton.advance_time(partial, 10**15)[0]
        for match in matches:

            def taken(variable: str | None, match: dict[str, list[Row]] = match) -> list[Row]:
                return [row for name, events in match.items() if variable in (None, name) for row in events]

            found.append([*key, *(measure(taken, None) for measure in measures)])
    return found


def _ordered(rows: list[Row], order_by: str) -> list[Row]:
    for part in reversed(order_by.split(",")):
        column, *direction = part.split()
        rows = sorted(rows, key=lambda row: row[column], reverse="DESC" in direction)
    return rows
