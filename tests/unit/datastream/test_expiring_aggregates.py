"""Running aggregates whose keys expire: rows and columns begin again at the same record, and forget the others."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy
import pytest
from tests.unit.aggregates_of_fields import READING

from penstock.common import Time
from penstock.common.types import Row
from penstock.datastream.state import StateTtlConfig
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.expiring_table import ExpiringArrayTable
from penstock.testing import OperatorHarness

AGGREGATES = {"count": "count", "total": ("n", "sum"), "mean": ("n", "avg"), "first": ("f", "first")}
TTL = StateTtlConfig.new_builder(Time.milliseconds(100)).build()


def harness(on_columns: bool, ttl: StateTtlConfig | None = TTL) -> OperatorHarness:
    """Return a harness of running aggregates."""

    def program(stream: Any) -> Any:
        typed = stream.as_columns(READING) if on_columns else stream
        return typed.key_by("key").aggregate(AGGREGATES, ttl_config=ttl)

    return OperatorHarness(program, now_ms=1_000)


def restore(source: OperatorHarness, target: OperatorHarness) -> None:
    """Restore the state of one operator in another."""
    source.operator.prepare_snapshot(1, False)
    for name, table in source.operator.keyed_tables().items():
        schema = source.operator.keyed_schemas().get(name)
        into = target.operator.restored_table(name, "" if schema is None else str(schema))
        for entry_keys, values in table.freeze(True).pieces():
            into.restore(entry_keys, values)
    target.operator.open()


def shown(one: OperatorHarness) -> list[str]:
    """Return the results as texts."""
    return [repr(tuple(row)) for row in one.outputs()]


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_the_oracle(seed: int) -> None:
    """A key would begin again too early, or never, or with a part of what it had."""
    random = Random(seed)
    with harness(True) as columns, harness(False) as rows:
        operator: Any = columns.operator
        for _ in range(40):
            chunk = [
                Row(key=random.choice("abcdefgh"), n=random.choice([None, 1, 1 << 58]) if seed % 2 else 2, f=0.5)
                for _ in range(random.randrange(1, 5))
            ]
            operator.process(Columns(operator.columns_received.batch_of(chunk), numpy.ones(len(chunk), numpy.int64)))
            for record in chunk:
                rows.push(record, 1)
            wait_ms = random.choice([0, 1, 99, 100, 30, 250])
            for each in (columns, rows):
                each.advance_ms(wait_ms)
                if random.random() < 0.1:
                    each.operator.prepare_snapshot(1, False)
                    for table in each.operator.keyed_tables().values():
                        table.freeze(False).release()
        assert shown(columns) == shown(rows)
        assert sum("(1," in text or ", 1," in text for text in shown(rows)) > 8


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_the_time_of_the_last_use_is_restored(before: bool, after: bool) -> None:
    """A key would live twice as long, or be gone."""
    with harness(before) as first, harness(after) as second:
        for key, wait_ms in (("a", 60), ("b", 30)):
            first.push(Row(key=key, n=5, f=0.5))
            first.advance_ms(wait_ms)
        second.advance_ms(90)
        restore(first, second)
        second.advance_ms(20)
        for key in ("a", "b"):
            second.push(Row(key=key, n=1, f=0.5))
        assert [(row.key, row.count) for row in second.outputs()] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("on_columns", [False, True])
@pytest.mark.parametrize("lives", [False, True])
def test_a_program_may_begin_or_end_to_let_keys_expire(on_columns: bool, lives: bool) -> None:
    """What it had would be refused, or expire at once."""
    with harness(on_columns, TTL if lives else None) as first, harness(on_columns, None if lives else TTL) as second:
        first.push(Row(key="a", n=5, f=0.5))
        restore(first, second)
        second.advance_ms(99)
        second.push(Row(key="a", n=1, f=0.5))
        second.advance_ms(100)
        second.push(Row(key="a", n=1, f=0.5))
        assert [(row.count, row.total) for row in second.outputs()] == [(2, 6), (3, 7) if lives else (1, 1)]


@pytest.mark.parametrize("is_read", [False, True])
def test_expired_keys_take_no_memory(is_read: bool) -> None:
    """A table of visitors would grow for ever. While a snapshot reads it, its slots stay."""
    with harness(True) as one:
        operator: Any = one.operator
        table = next(table for table in operator.keyed_tables().values() if isinstance(table, ExpiringArrayTable))
        sizes = []
        for number in range(30):
            chunk = [Row(key=f"{number}-{key}", n=1, f=0.5) for key in range(200)]
            operator.process(Columns(operator.columns_received.batch_of(chunk), None))
            one.advance_ms(50)
            frozen = table.freeze(number == 0)
            if not is_read:
                frozen.release()
            sizes.append(len(table))
        assert table.alive <= 800 and (max(sizes) <= 1_600) is not is_read


def test_queries_do_not_see_what_has_expired() -> None:
    """A live query would show visitors of yesterday, with the times of their last visits."""
    with harness(True) as one:
        one.push(Row(key="a", n=5, f=0.5))
        name = next(iter(one.operator.keyed_schemas()))
        table: Any = one.operator.keyed_tables()[name]
        visible = one.operator.keyed_backend().visible_value_of(name)
        assert visible(table.get("a")) == (1, 5, (5, 1), 0.5)
        one.now_ms += 100
        assert visible(table.get("a")) is None


def test_what_is_refused() -> None:
    """An expired key would go on where nobody has cleaned it up yet."""
    shows = StateTtlConfig.new_builder(Time.seconds(1)).return_expired_if_not_cleaned_up().build()
    with pytest.raises(ValueError, match=r"begin again.*NeverReturnExpired"):
        harness(False, shows)
    with pytest.raises(TypeError, match="expected a StateTtlConfig, got 5"):
        harness(False, 5)  # type: ignore[arg-type]
