"""Aggregates of fields in BATCH: records of a key are added up before they are sent."""

from __future__ import annotations

import pytest

from penstock.common.errors import UserFunctionError
from penstock.common.functions.aggregate_results import ResultRows
from penstock.common.functions.field_aggregates import FieldAggregates, field_aggregates
from penstock.common.functions.field_key import FieldKey
from penstock.engine.runtime.operators.partial_aggregates import PartialAggregates, PartialAggregatesOperator
from penstock.engine.runtime.operators.running_aggregate import RunningAggregateOperator

KEY = FieldKey(("city", "day"))
DECLARED = {"n": "count", "total": ("share", "sum"), "first": ("share", "first"), "mean": ("share", "avg")}
FUNCTION = FieldAggregates(field_aggregates(DECLARED, KEY.fields, None))


def record(city, share, day=1):
    return {"city": city, "day": day, "share": share}


def combining(keys_max=50_000):
    return PartialAggregatesOperator("Combine", KEY, FUNCTION, keys_max)


def aggregated(rig, values):
    """The results of an aggregation that gets these values, of one key after the other."""
    operator = RunningAggregateOperator("Aggregate", KEY, FUNCTION, ResultRows(KEY.fields, FUNCTION.declared))
    one = rig(operator, batched=True)
    for key in sorted({KEY(value) for value in values}):
        one.process(*(value for value in values if KEY(value) == key))
        one.do(operator.end_key)
    return [tuple(value) for value, _ in one.log]


def test_parts_have_the_aggregates_of_their_records(rig) -> None:
    """A batch would give others than its records have."""
    values = [record(city, None if n % 5 == 0 else n, n % 2) for n, city in enumerate("abacbaabacbaabab" * 3)]
    one = rig(combining(keys_max=5), batched=True)
    one.process(*values[:20])
    one.process(*values[20:])
    one.do(one.operator.finish)
    sent = [value for value, _ in one.log]
    assert len(set(map(KEY, values))) < len(sent) < len(values), "parts went when there were five keys, and at the end"
    assert aggregated(rig, sent) == aggregated(rig, values)
    assert one.do(one.operator.finish) == [], "what was sent once must not come again"


def test_keys_that_hardly_come_again_are_not_combined(rig) -> None:
    """Each record would be made a part of its own: twice the work, for as many to send."""
    one = rig(combining(keys_max=3), batched=True)
    first = [record(city, 1) for city in "abca"]
    one.process(*first)
    assert [type(value) for value, _ in one.log] == [PartialAggregates] * 3
    again = [record("a", 2), record("a", 3)]
    assert one.process(*again) == [(value, None) for value in again]


def test_records_with_timestamps_are_sent(rig) -> None:
    """The result would not have the time of the last record."""
    one = rig(combining(), batched=True)
    assert one.process(record("a", 1)) == []
    later = record("a", 2)
    part, forwarded = one.process(later, at=[7])
    assert type(part[0]) is PartialAggregates and forwarded == (later, 7)


def test_errors_name_the_value(rig) -> None:
    """One text among a billion numbers could not be found."""
    with pytest.raises(UserFunctionError, match=r"in aggregate\n  value \{'city': 'a', 'day': 1, 'share': 'x'\}"):
        rig(combining()).process(record("a", 1), record("b", 2), record("a", "x"))
    with pytest.raises(UserFunctionError, match="a set cannot be a key"):
        rig(combining()).process(record({1}, 1))
