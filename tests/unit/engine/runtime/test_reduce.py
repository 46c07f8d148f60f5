"""Reduce on keyed streams, its combiner, and rolling aggregates: results, state, errors."""

from __future__ import annotations

import dataclasses
from operator import itemgetter, lt
from typing import NamedTuple

import pytest

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.common import Types
from penstock.common.errors import UserFunctionError
from penstock.common.functions.field_key import FieldKey
from penstock.common.types import Row
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.reduce import BestReduce, CombineOperator, ReduceOperator, SumReduce

COUNT = ValueStateDescriptor("count", Types.LONG())


def first(value):
    return value[0]


def reducing(function):
    return ReduceOperator("Reduce", first, UserFunction(function, "reduce"))


def add(a, b):
    return a[0], a[1] + b[1]


def test_reduce_gives_every_value_so_far(rig) -> None:
    """A running total would skip values, or mix up its keys."""
    one = rig(reducing(add))
    assert one.process(("a", 1), ("b", 5), ("a", 2), at=[1, 2, 3]) == [(("a", 1), 1), (("b", 5), 2), (("a", 3), 3)]
    assert one.process(("b", 1)) == [(("b", 6), None)]


def test_reduce_in_batched_mode_gives_the_last_value_once(rig) -> None:
    """A batch would end with all the values on the way."""
    one = rig(reducing(add), batched=True)
    assert one.process(("a", 1), ("a", 2), at=[1, 3]) == []
    assert one.process(("a", 4), at=[9]) == []
    assert one.do(one.operator.end_key) == [(("a", 7), 9)]
    assert one.process(("b", 7)) == []
    assert one.do(one.operator.end_key) == [(("b", 7), None)]


def test_the_combiner_changes_nothing_but_the_number_of_records(rig) -> None:
    """Batched jobs would give other sums than pipelined ones."""
    combining = rig(CombineOperator("Combine", first, UserFunction(add, "reduce"), keys_max=3), batched=True)
    values = [(key, n) for n, key in enumerate("abacbadcebfa")]
    combining.process(*values)
    combining.do(combining.operator.finish)
    sent = [value for value, _ in combining.log]
    assert len(sent) < len(values)

    def total(records):
        one = rig(reducing(add), batched=True)
        for key in "abcdef":
            one.process(*(record for record in records if record[0] == key))
            one.do(one.operator.end_key)
        return [value for value, _ in one.log]

    assert total(sent) == total(values)
    assert combining.do(combining.operator.finish) == [], "what was sent once must not come again"


def test_records_with_timestamps_are_not_combined(rig) -> None:
    """The latest value of a key would be the last one read, not the last one by time."""
    combining = rig(CombineOperator("Combine", first, UserFunction(lambda a, b: b, "reduce")), batched=True)
    assert combining.process(("a", 1)) == []
    assert combining.process(("a", 2), ("a", 3), at=[9, 5]) == [(("a", 1), None), (("a", 2), 9), (("a", 3), 5)]


def test_errors_of_reduce_name_the_value(rig) -> None:
    """One string among a billion numbers could not be found."""
    combining = CombineOperator("Combine", first, UserFunction(add, "reduce"))
    for operator in (reducing(add), combining):
        with pytest.raises(UserFunctionError, match=r"in add\n  value \('a', 'x'\)"):
            rig(operator).process(("a", 1), ("b", 2), ("a", "x"))


def test_a_set_as_the_key_of_an_aggregation_says_what_can_be_one(rig) -> None:
    """Whoever moves a PyFlink program would read "unhashable type", from a line of penstock's."""
    combining = rig(ReduceOperator("Sum", first, UserFunction(SumReduce(1), "reduce")).combiner())
    with pytest.raises(UserFunctionError, match=r"a set cannot be a key: .*; return tuple\(sorted\("):
        combining.process(("a", 1), ({1}, 2))


class CountingReduce:
    """Adds, and the number of calls for the key so far. Of PyFlink's tests: test_reduce_with_state."""

    def open(self, context):
        self.count = context.get_state(COUNT)

    def reduce(self, a, b):
        self.count.update((self.count.value() or 0) + 1)
        return a[0], a[1] + b[1] + 100 * self.count.value()


def test_a_reduce_function_may_have_keyed_state(rig) -> None:
    """A PyFlink program would be refused; with state of another key its results would be wrong."""
    one = rig(reducing(CountingReduce()))
    values = [("a", 1), ("b", 5), ("a", 2), ("b", 1), ("a", 3)]
    results = [value for value, _ in one.process(*values)]
    assert results == [("a", 1), ("b", 5), ("a", 103), ("b", 106), ("a", 306)]


def test_the_state_of_a_reduce_function_ends_with_its_key_in_batched_mode(rig) -> None:
    """Memory would grow with every key, and a key would see what another one left."""
    one = rig(reducing(CountingReduce()), batched=True)
    for key in ("a", "b"):
        one.process((key, 1), (key, 2), (key, 3))
        assert one.do(one.operator.end_key) == [((key, 306), None)]


def test_only_what_gives_the_same_in_parts_is_combined() -> None:
    """A reduce that counts, by `(a[0], a[1] + 1)`, would count the senders of a key instead of its records in BATCH."""
    assert reducing(CountingReduce()).combiner() is None
    assert reducing(lambda a, b: (a[0], a[1] + 1)).combiner() is None
    for aggregate in (SumReduce(1), BestReduce(1, lt, whole=False), BestReduce(1, lt, whole=True)):
        assert ReduceOperator("r", first, UserFunction(aggregate, "reduce")).combiner() is not None


class Sale(NamedTuple):
    shop: str
    amount: int


@dataclasses.dataclass(frozen=True)
class FrozenSale:
    shop: str
    amount: int


class PlainSale:
    def __init__(self, shop, amount) -> None:
        self.shop, self.amount = shop, amount

    def __eq__(self, other):
        return isinstance(other, PlainSale) and vars(self) == vars(other)

    __hash__ = None


MAKERS = [
    (lambda shop, amount: (shop, amount), 1),
    (lambda shop, amount: [shop, amount], 1),
    (lambda shop, amount: {"shop": shop, "amount": amount}, "amount"),
    (lambda shop, amount: Row(shop=shop, amount=amount), "amount"),
    (lambda shop, amount: Row(shop, amount), 1),
    (Sale, 1),
    (Sale, "amount"),
    (FrozenSale, "amount"),
    (PlainSale, "amount"),
    (lambda shop, amount: amount, 0),
]


@pytest.mark.parametrize(("make", "field"), MAKERS)
def test_rolling_aggregates_on_every_kind_of_record(make, field) -> None:
    """`sum("amount")` would work on tuples and fail, or lose fields, on the records that people have."""
    a, b = make("a", 3), make("b", 2)
    assert SumReduce(field).reduce(a, b) == make("a", 5)
    assert BestReduce(field, lambda x, y: x < y, whole=False).reduce(a, b) == make("a", 2)
    assert BestReduce(field, lambda x, y: x < y, whole=True).reduce(a, b) == make("b", 2)
    assert BestReduce(field, lambda x, y: x > y, whole=True).reduce(a, b) == make("a", 3)
    assert (a, b) == (make("a", 3), make("b", 2)), "records are shared: they must not be changed in place"


def test_the_first_of_equals_stays() -> None:
    """min_by would name another record than Flink's."""
    best = BestReduce(1, lambda x, y: x < y, whole=True)
    assert best.reduce(("first", 1), ("second", 1)) == ("first", 1)


def test_lists_and_dicts_are_keys(rig) -> None:
    """A program moved from PyFlink would end at its first record with a list as the key."""
    records = [("a", 1), ([1], 2), ({"b": 1}, 3), ([1], 4), ("a", 5)]
    totals = [("a", 1), ([1], 2), ({"b": 1}, 3), ([1], 6), ("a", 6)]
    assert [value for value, _ in rig(reducing(add)).process(*records)] == totals
    for function in (add, SumReduce(1)):
        combining = rig(CombineOperator("Combine", first, UserFunction(function, "reduce")), batched=True)
        combining.process(*records)
        combining.do(combining.operator.finish)
        assert [value for value, _ in combining.log] == [("a", 6), ([1], 6), ({"b": 1}, 3)]


def amount_of(record):
    if isinstance(record, (tuple, list, Row)):
        return record[1]
    return record["amount"] if isinstance(record, dict) else record.amount


def shop_of(record):
    if isinstance(record, (tuple, list, Row)):
        return record[0]
    return record["shop"] if isinstance(record, dict) else record.shop


KEYS = [
    lambda record: amount_of(record) % 3,
    lambda record: (shop_of(record), amount_of(record) > 4),
    lambda record: amount_of(record) // 4 if isinstance(amount_of(record), int) else 0,
    lambda record: str(vars(record) if isinstance(record, PlainSale) else record),
    lambda record: "cheap" if 0 < amount_of(record) < 9 else shop_of(record),
    shop_of,
    lambda record: None,
]


@pytest.mark.parametrize("key_of", KEYS)
@pytest.mark.parametrize(("make", "field"), MAKERS[:-1])
@pytest.mark.parametrize("aggregate", ["sum", "min", "min_by"])
def test_a_key_of_the_aggregated_field_is_the_key_of_the_record(rig, make, field, key_of, aggregate) -> None:
    """A partial sum would be added to the sum of another key: a batch would give other results than a stream."""
    records = [make(shop, amount) for amount, shop in enumerate("abacbadcebfa")]
    function = SumReduce(field) if aggregate == "sum" else BestReduce(field, lt, whole=aggregate == "min_by")
    reduce = ReduceOperator("Reduce", key_of, UserFunction(function, "reduce"))
    combining = rig(reduce.combiner(), batched=True)
    for start in range(0, len(records), 5):
        combining.process(*records[start : start + 5])
    combining.do(combining.operator.finish)
    sent = [value for value, _ in combining.log]

    def results(values):
        by_key: dict = {}
        for value in values:
            key = key_of(value)
            by_key[key] = function.reduce(by_key[key], value) if key in by_key else value
        return by_key

    assert results(sent) == results(records)
    if key_of in KEYS[-2:]:
        assert len(sent) < len(records), "these keys can be combined"


@pytest.mark.parametrize(
    ("select", "field", "kinds"),
    [
        (lambda v: v[0], 1, {tuple}),
        (itemgetter(0), 1, {tuple}),
        (lambda v: v["k"], "n", {dict, Row}),
        (FieldKey(("k", "l")), "n", {dict, Row}),
        (lambda v: v[1], 1, set()),
        (lambda v: v[0], -1, set()),
        (lambda v: v[-2], 0, set()),
        (lambda v: v[True], 1, set()),
        (lambda v: v[0:1], 1, set()),
        (FieldKey(("k", "n")), "n", set()),
        (lambda v: v["k"], 0, set()),
        (lambda v: v[0] if v[2] else v[1], 1, set()),
    ],
)
def test_selectors_that_are_known_to_keep_keys_are_not_tried_for_each_key(rig, select, field, kinds) -> None:
    """A batch with many keys would take a third longer to combine, or a sum would be added to another key's."""
    assert SumReduce(field).kinds_that_keep_keys(select) == kinds
    if tuple in kinds:
        combining = rig(ReduceOperator("Sum", select, UserFunction(SumReduce(1), "reduce")).combiner(), batched=True)
        combining.process(("a", 1), ("b", 2), ("a", 3))
        combining.do(combining.operator.finish)
        assert [value for value, _ in combining.log] == [("a", 4), ("b", 2)]


def test_sums_of_numbers_by_a_key_of_the_number(rig) -> None:
    """The sums of even and odd numbers would be one sum."""
    for key_of, sent in [(lambda n: n % 2, [1, 2, 3, 4]), (lambda n: 0, [10])]:
        combining = rig(ReduceOperator("Sum", key_of, UserFunction(SumReduce(0), "reduce")).combiner(), batched=True)
        combining.process(1, 2)
        combining.process(3, 4)
        combining.do(combining.operator.finish)
        assert [value for value, _ in combining.log] == sent


@dataclasses.dataclass
class Delay:
    airport: str
    minutes: int


@pytest.mark.parametrize(
    ("record", "field", "message"),
    [
        (("a", 1), 7, "there is no field at position 7: the tuple has 2 fields"),
        ({"k": 1}, "n", "there is no field 'n': the dict has k"),
        (Row(k="a", n=1), "m", "there is no field 'm': the Row has k, n"),
        (Row("a", 1), 2, "there is no field at position 2: the Row has 2 fields"),
        (Delay("JFK", 1), "delay", "there is no field 'delay': the Delay has airport, minutes"),
        (5, 1, "there is no field at position 1: the int has no fields"),
        (5, "n", "there is no field 'n': the int has no fields"),
    ],
)
@pytest.mark.parametrize("batched", [False, True])
def test_a_field_that_is_not_there_is_told_with_the_first_record(rig, record, field, message, batched) -> None:
    """A misspelt field would be found with the second record of a key: in production, weeks later."""
    for aggregate in (SumReduce(field), BestReduce(field, lt, whole=True)):
        reduce = ReduceOperator("Sum", lambda value: 0, UserFunction(aggregate, "reduce"))
        for operator in (reduce, reduce.combiner()):
            with pytest.raises(UserFunctionError, match="operator 'Sum") as raised:
                rig(operator, batched=batched or operator is not reduce).process(record)
            assert message in str(raised.value) and "value " in str(raised.value)
