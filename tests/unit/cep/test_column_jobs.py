"""Patterns on streams of columns: the same pattern on rows is the oracle."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.table.in_process import InProcess

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern, field
from penstock.common import Types, WatermarkStrategy
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.transformations import OperatorTransformation

ROW = Types.ROW_NAMED(["card", "amount", "at"], [Types.STRING(), Types.DOUBLE(), Types.LONG()])
SMALL, LARGE = field("amount") < 3, field("amount") >= 8

PATTERNS = {
    "relaxed": lambda: Pattern.begin("a").where(SMALL).followed_by("b").where(LARGE).within(60),
    "loop": lambda: Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event())
    .where(SMALL).one_or_more().greedy().followed_by("b").where(LARGE).within(200),
    "strict": lambda: Pattern.begin("a").where(SMALL).next("b").where(LARGE),
    "lambda": lambda: Pattern.begin("a").where(SMALL).followed_by("b").where(lambda row: (row.amount or 0) > 8)
    .within(60),
    "sums": lambda: Pattern.begin("a").where(SMALL).followed_by("b").where(field("amount") + 1 > 9).within(60),
    "iterative": lambda: Pattern.begin("a").where(SMALL).followed_by("b").where(LARGE)
    .where(lambda row, ctx: row.amount > 8 + ctx.get_events_for_pattern("a")[0].amount / 2).within(60),
}  # fmt: skip


def payments(seed: int) -> list[Row]:
    random = Random(seed)
    rows, at = [], 0
    for _ in range(300):
        at += random.choice([0, 1, 4, 9])
        amount = random.choice([None, 1.0, 2.5, 5.0, 5.5, 8.0, 9.5])
        rows.append(Row(card=random.choice("abc"), amount=amount, at=at))
    return rows


def found(name: str, columns: bool, seed: int) -> dict[str, list[Any]]:
    env = StreamExecutionEnvironment(executor=InProcess())
    env.set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.at)
    rows = env.from_collection(payments(seed), ROW).set_parallelism(1)
    stream: Any = rows.assign_timestamps_and_watermarks(strategy).set_parallelism(1)
    if columns:
        stream = stream.as_columns().set_parallelism(1)
    pattern = PATTERNS[name]()
    matches = CEP.pattern(stream.key_by("card"), pattern).select(
        lambda match: [(step, [(row.card, row.amount, row.at) for row in rows]) for step, rows in match.items()]
    )
    filters = [one.operator for one in before(matches._transformation) if "filter" in one.name]
    assert (name != "strict") is bool(filters)
    assert all((type(one).__name__ == "ColumnPatternFilterOperator") is columns for one in filters)
    by_key: dict[str, list[Any]] = {}
    with matches.execute_and_collect() as results:
        for match in results:
            by_key.setdefault(match[0][1][0][0], []).append(match)
    return by_key


def before(transformation: Any) -> list[OperatorTransformation]:
    found = [transformation] if isinstance(transformation, OperatorTransformation) else []
    return found + [one for input in transformation.inputs for one in before(input)]


@pytest.mark.parametrize("name", PATTERNS)
def test_columns_give_the_matches_of_rows_in_their_order(name: str) -> None:
    """A job would find other matches since its stream has columns."""
    for seed in range(3):
        on_columns = found(name, True, seed)
        assert sum(map(len, on_columns.values())) > 5
        assert on_columns == found(name, False, seed)
