"""Flink's own cases of its built-in functions: `functions.jsonl.gz` of the shared data, which is not in the project.

A case is SQL text over columns, with the results and their types or with a part of an error's message. It counts if
all of this agrees; "not supported" never counts. The numbers below are asserted and may only grow.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.table.flink_cases import ABSENT, FUNCTIONS, cases_of
from tests.unit.table.java_values import column_of, field_texts, split, texts, types_of
from tests.unit.table.sql_evaluation import Evaluator, Typed, UserFunction

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.cast_text import raw
from penstock.table.functions.casts import cast
from penstock.table.functions.errors import FunctionError, InvalidCallError, UnknownFunctionError
from penstock.table.logical_types import LogicalType, parse

CASES = cases_of(FUNCTIONS)

RESULTS_THAT_AGREE = 1019
ERRORS_THAT_AGREE = 396

SHARE = 0.8
"""Of all cases; "not supported" counts as one that does not agree."""

ZONES = {"CastFunctionITCase": "Asia/Shanghai", "ComparisonFunctionITCase": "America/Los_Angeles"}
ROWS = 3
"""Rows of a column: the value, NULL, and the value again. A kernel that mixes up rows does not give the same twice."""


class Case(NamedTuple):
    group: dict[str, Any]
    expression: str
    results: str | None
    types: str | None
    error: str | None
    fails: bool

    @property
    def family(self) -> str:
        return str(self.group["class"]).removesuffix("ITCase")


def cases() -> Iterator[Case]:
    with gzip.open(CASES, "rt", encoding="utf-8") as file:
        for line in file:
            group = json.loads(line)
            for item in group["items"]:
                if item["expr"] and item["kind"].startswith("Sql"):
                    fails = item["kind"].startswith("SqlError")
                    yield Case(group, item["expr"], item["results"], item["types"], item["error"], fails)


def evaluated(case: Case) -> list[Typed]:
    zone = ZONES.get(case.group["class"], "UTC")
    fields: dict[str, Typed] = {}
    if case.group["fields"]:
        types = types_of(case.group["fieldTypes"], case.group["fields"])
        values = field_texts(case.group["fields"], tuple(types))
        for index, (value, one) in enumerate(zip(values, types, strict=True)):
            if f"f{index}" in case.expression:
                fields[f"f{index}"] = Typed(column_of(value, one, zone), one)
    return Evaluator(fields, zone=zone, rows=ROWS, functions=USER_FUNCTIONS).all(case.expression)


def failure_of(case: Case) -> str | None:
    """Return why a case does not agree, or None."""
    try:
        results = evaluated(case)
    except UnknownFunctionError as error:
        return f"{error}"
    except (FunctionError, InvalidCallError) as error:
        if not case.fails:
            return f"{type(error).__name__}: {error}"
        prefix = "SQL validation failed. " if isinstance(error, InvalidCallError) else ""
        return None if (case.error or "") in f"{prefix}{error}" else f"another error: {error}"
    if case.fails:
        return "no error"
    return difference(case, results)


def difference(case: Case, results: list[Typed]) -> str | None:
    expected_types = [parse(one.removeprefix("[").removesuffix("]")) for one in split((case.types or "")[1:-1])]
    if [one.type for one in results] != expected_types:
        return f"types {[str(one.type) for one in results]}"
    expected = case.results or ""
    if expected == "[]" and case.family == "RandFunction":  # without a seed
        return None
    shown = [shown_as(one) for one in results]
    agrees = expected in (f"[{', '.join(parts)}]" for parts in combinations(shown))
    return None if agrees else f"values {[one[0] for one in shown]}"


def combinations(parts: Sequence[list[str]]) -> Iterator[list[str]]:
    if not parts:
        yield []
        return
    for first in parts[0]:
        for rest in combinations(parts[1:]):
            yield [first, *rest]


def shown_as(one: Typed) -> list[str]:
    column = one.column
    if isinstance(column, pa.Scalar):
        column = pa.array([column.as_py()], column.type)
    assert column.type == arrow_type(one.type), f"expected {arrow_type(one.type)}, got {column.type}"
    values = (column if one.type.root == "NULL" else raw(column, one.type)).to_pylist()
    assert repr(values[0]) == repr(values[2 if len(values) == ROWS else 0]), f"{values} differ"
    return list(texts(values[0], one.type))


def tally() -> tuple[Counter[tuple[str, bool, bool]], list[tuple[Case, str]]]:
    """Count by family, whether an error is expected, and whether it agrees; and list what does not."""
    counts: Counter[tuple[str, bool, bool]] = Counter()
    failures = []
    for case in cases():
        try:
            failure = failure_of(case)
        except Exception as error:
            failure = f"broken: {type(error).__name__}: {error}"
        counts[case.family, case.fails, failure is None] += 1
        if failure is not None:
            failures.append((case, failure))
    return counts, failures


# ---- functions that Flink's cases bring


def _takes_not_null(arguments: Sequence[Typed]) -> Typed:
    assert not arguments[0].type.nullable
    return arguments[0]


def _create_multiset(arguments: Sequence[Typed]) -> Typed:
    kind = LogicalType("MULTISET", children=(arguments[0].type.children[0],))
    return Typed(arguments[0].column.cast(arrow_type(kind)), kind)


def _create_empty_array(arguments: Sequence[Typed]) -> Typed:
    kind = parse("ARRAY<INT>")
    return Typed(pa.array([[]] * ROWS, arrow_type(kind)), kind)


def as_array(column: Any) -> Any:
    return pa.array([column.as_py()] * ROWS, column.type) if isinstance(column, pa.Scalar) else column


def _constructor(kind: LogicalType) -> UserFunction:
    """A function that takes the fields of a row or an object, or a row with them."""

    def construct(arguments: Sequence[Typed]) -> Typed:
        if len(arguments) == 1:
            return Typed(cast(arguments[0].column, arguments[0].type, kind), kind)
        columns = [
            as_array(cast(one.column, one.type, child)) for one, child in zip(arguments, kind.children, strict=True)
        ]
        return Typed(pa.StructArray.from_arrays(columns, fields=list(arrow_type(kind))), kind)

    return construct


def _structured(name: str, fields: str) -> UserFunction:
    return _constructor(parse(f"STRUCTURED<'{STRUCTURED}${name}', {fields}>"))


def _first_field(row: LogicalType) -> UserFunction:
    def first(arguments: Sequence[Typed]) -> Typed:
        column = cast(arguments[0].column, arguments[0].type, row)
        return Typed(as_array(column).flatten()[0], row.children[0])

    return first


def _takes_row(arguments: Sequence[Typed]) -> Typed:
    """Add a number to the first field."""
    kind = parse("ROW<i INT, s STRING>")
    number, text = as_array(cast(arguments[0].column, arguments[0].type, kind)).flatten()
    added = pc.add(number, arguments[1].column)
    return Typed(pa.StructArray.from_arrays([added, text], fields=list(arrow_type(kind))), kind)


STRUCTURED = "org.apache.flink.table.planner.functions.StructuredFunctionsITCase"
_TYPE_1, _TYPE_2 = (f"STRUCTURED<'{STRUCTURED}$Type{number}', a INT, b STRING>" for number in (1, 2))

USER_FUNCTIONS = {
    "TakesNotNull": _takes_not_null,
    "TakesRow": _takes_row,
    "RowToFirstField": _first_field(parse("ROW<i INT, s STRING>")),
    "NestedRowToFirstField": _first_field(parse("ROW<r ROW<i INT, d DOUBLE>, s STRING>")),
    "StructuredTypeConstructor": _structured("UserPojo", "i INT, s STRING"),
    "CreateMultiset": _create_multiset,
    "CreateEmptyArray": _create_empty_array,
    "CreateStructuredType": _structured("Person", "name STRING, age INT, payload MAP<STRING, STRING>"),
    "CreateInternalRow": _constructor(parse("ROW<f0 STRING, f1 STRING>")),
    "Type1Constructor": _structured("Type1", "a INT, b STRING"),
    "Type2Constructor": _structured("Type2", "a INT, b STRING"),
    "NestedConstructor": _structured("NestedType", f"n1 {_TYPE_1}, n2 {_TYPE_2}"),
}


@pytest.mark.skipif(not CASES.exists(), reason=ABSENT)
def test_flinks_cases_of_functions_agree() -> None:
    """Queries would give other results than in Flink, or fail, where they did not before."""
    counts, _ = tally()

    agreeing = {
        fails: sum(n for (_, f, agrees), n in counts.items() if f is fails and agrees) for fails in (False, True)
    }
    totals = {fails: sum(n for (_, f, _), n in counts.items() if f is fails) for fails in (False, True)}
    print(f"\n{agreeing[False]} of {totals[False]} results, {agreeing[True]} of {totals[True]} errors")
    assert agreeing[False] >= RESULTS_THAT_AGREE, agreeing
    assert agreeing[True] >= ERRORS_THAT_AGREE, agreeing
    assert all(agreeing[fails] >= SHARE * totals[fails] for fails in totals), (agreeing, totals)


def main() -> None:
    counts, failures = tally()
    for case, failure in failures:
        print(
            case.family,
            "|",
            case.expression[:160],
            "=>",
            (case.results or case.error or "any error")[:100],
            case.types,
            "|",
            failure[:200],
        )
    for fails in (False, True):
        agreeing = sum(n for (_, f, agrees), n in counts.items() if f is fails and agrees)
        print("errors" if fails else "results", agreeing, "of", sum(n for (_, f, _), n in counts.items() if f is fails))
    for family in sorted({family for family, _, _ in counts}):
        print(
            family,
            *(f"{counts[family, f, True]}/{counts[family, f, True] + counts[family, f, False]}" for f in (False, True)),
        )


if __name__ == "__main__":
    main()
