"""A program goes on with other aggregates of fields than its savepoint has: by name, not by position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.common.errors import CheckpointError
from penstock.common.types import Row
from penstock.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.engine.state.aggregates_schema import AggregatesSchema, EvolvedTable, aggregates_schema, evolved_table
from penstock.engine.state.layers import LayeredTable
from penstock.testing import OperatorHarness

LONGS = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
DOUBLES = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.DOUBLE()])
BEFORE = {"count": "count", "total": ("n", "sum"), "mean": ("n", "avg")}
AFTER = {"mean": ("n", "avg"), "least": ("n", "min"), "total": ("n", "sum"), "again": "count"}
Windows = Callable[[Any], Any]
WINDOWS: dict[str, Windows] = {
    "running": lambda keyed: keyed,
    "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100))),
    "sliding": lambda keyed: keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(100), Time.milliseconds(50))),
    "session": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(100))),
}


def harness(kind: str, aggregates: Any, record_type: Any = LONGS, on_columns: bool = False) -> OperatorHarness:
    """Return a harness of aggregates."""

    def program(stream: Any) -> Any:
        stream._transformation.output_type = record_type
        typed = stream.as_columns(record_type) if on_columns else stream
        return WINDOWS[kind](typed.key_by("key")).aggregate(aggregates)

    return OperatorHarness(program)


def restore(source: OperatorHarness, target: OperatorHarness) -> set[str]:
    """Restore the state of one program in another. Return the tables whose content was changed on the way."""
    source.operator.prepare_snapshot(1, True)
    changed = set()
    for name, table in source.operator.keyed_tables().items():
        schema = source.operator.keyed_schemas().get(name)
        into = target.operator.restored_table(name, "" if schema is None else str(schema))
        for entry_keys, values in table.freeze(True).pieces():
            into.restore(entry_keys, values)
        if isinstance(into, EvolvedTable):
            changed.add(name)
    target.operator.open()
    return changed


@pytest.mark.parametrize("after_columns", [False, True])
@pytest.mark.parametrize("before_columns", [False, True])
@pytest.mark.parametrize("kind", WINDOWS)
def test_aggregates_are_found_by_name(kind: str, before_columns: bool, after_columns: bool) -> None:
    """A sum would go on from what was a count: the accumulators have no names."""
    with (
        harness(kind, BEFORE, on_columns=before_columns) as first,
        harness(kind, AFTER, on_columns=after_columns) as second,
    ):
        for n in (5, 7):
            first.push(Row(key="a", n=n), 60)
        assert restore(first, second)
        second.push(Row(key="a", n=9), 61)
        second.finish()
        found = second.outputs()[-1]
        assert (found.key, found.mean, found.least, found.total, found.again) == ("a", 7.0, 9, 21, 1)


@pytest.mark.parametrize("on_columns", [False, True])
@pytest.mark.parametrize("kind", WINDOWS)
def test_integers_may_become_floats(kind: str, on_columns: bool) -> None:
    """The field of a stream has become a DOUBLE."""
    with (
        harness(kind, BEFORE, on_columns=on_columns) as first,
        harness(kind, BEFORE, DOUBLES, on_columns=on_columns) as second,
    ):
        first.push(Row(key="a", n=3), 60)
        restore(first, second)
        second.push(Row(key="a", n=0.5), 61)
        second.finish()
        found = second.outputs()[-1]
        assert (found.count, repr(found.total), found.mean) == (2, "3.5", 1.75)


@pytest.mark.parametrize(
    ("after", "record_type", "words"),
    [
        ({"total": ("n", "max")}, LONGS, r"'total' was written as .*sum\(\"n\"\) of \"integer\".*declares it as .*max"),
        ({"count": ("n", "count")}, LONGS, "'count' was written as"),
    ],
)
def test_what_is_refused(after: Any, record_type: Any, words: str) -> None:
    """A maximum would begin with a sum."""
    with (
        harness("running", BEFORE) as first,
        harness("running", after, record_type) as second,
        pytest.raises(CheckpointError, match=words),
    ):
        restore(first, second)


def test_floats_do_not_become_integers() -> None:
    """A sum of 3.5 would be 3."""
    with (
        harness("running", BEFORE, DOUBLES) as first,
        harness("running", BEFORE) as second,
        pytest.raises(CheckpointError, match=r'of "float", the program declares it as .*of "integer"'),
    ):
        restore(first, second)


@pytest.mark.parametrize("name", ["a", 'quoted "name", (of): more', "ünï", "\\"])
def test_names_of_any_text(name: str) -> None:
    """A schema is stored as a text, from which names are read again."""
    with harness("running", {name: ("n", "sum"), "x": "count"}) as one:
        (schema,) = one.operator.keyed_schemas().values()
    assert isinstance(schema, AggregatesSchema)
    table = LayeredTable()
    assert evolved_table("o", table, str(schema), schema, now_ms=0) is table
    assert evolved_table("o", table, "", schema, now_ms=0) is table
    fewer = evolved_table("o", table, str(schema), aggregates_schema(schema.aggregates[:1]), now_ms=0)
    fewer.restore(["k"], [(5, 1)])
    assert table.get("k") == (5,)
