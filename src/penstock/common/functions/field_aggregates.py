"""Aggregates of fields, such as `aggregate({"n": "count", "total": ("amount", "sum")})`.

An aggregate ignores None, as SQL's do: a sum of nothing but None is None. "count" counts records, ("amount", "count")
those with an amount. "first" and "last" are by the order in which records come. NaN is greater than all other numbers,
as in Flink, and a zero that is the least or greatest has no sign: the order of the records would decide. Users write
others as an `ArrayAggregateFunction`, see `user_aggregates.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.common.functions.field_key import FieldKey
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.common.types.basic_types import PickledBytesTypeInfo
from penstock.common.types.composite_types import ExternalTypeInfo
from penstock.common.values.ordered import is_less

if TYPE_CHECKING:
    from penstock.common.functions.user_aggregates import UserAggregate

COUNT, SUM, WINDOW_START, WINDOW_END = "count", "sum", "window_start", "window_end"
MIN, MAX, AVG, FIRST, LAST = "min", "max", "avg", "first", "last"
USER = "user"
"""The kind of an aggregate that a user has written."""
_OF_FIELDS = (COUNT, SUM, MIN, MAX, AVG, FIRST, LAST)
_OF_WINDOWS = (WINDOW_START, WINDOW_END)
_IN_ANY_ORDER = (COUNT, MIN, MAX)
_NUMBERS = (
    Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT(), Types.FLOAT(), Types.DOUBLE(),
    Types.BIG_DEC(),
)  # fmt: skip
INTEGER, FLOAT = "integer", "float"
"""Families of types, whose members have the same accumulators."""


class FieldAggregate(NamedTuple):
    """An aggregate: the name of its result, its kind, and the field that it reads, if it reads one."""

    name: str
    kind: str
    field: str | None = None
    family: str = ""
    """The family of the field's type, INTEGER or FLOAT, or the name of another type; empty if it is not known.

    Of a USER's aggregate, what its accumulators depend on."""
    function: UserAggregate | None = None
    """The function of a USER's aggregate, which knows its fields."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that it reads."""
        if self.function is not None:
            return self.function.fields
        return () if self.field is None else (self.field,)

    @property
    def of_window(self) -> bool:
        """Whether it is a bound of the window, which no record changes."""
        return self.kind in _OF_WINDOWS

    @property
    def in_any_order(self) -> bool:
        """Whether it is the same in any order of the records: a sum of floats is not, bit by bit."""
        if self.function is not None:
            return self.function.in_any_order
        return self.kind in _IN_ANY_ORDER or (self.kind in (SUM, AVG) and self.family == INTEGER)


Accumulator = tuple[Any, ...]
"""For each aggregate of fields, in order: a count, a value, for an average (sum, count), for a USER's
its numbers; None without values."""


class FieldAggregates:
    """An AggregateFunction of records, by names of fields."""

    def __init__(self, aggregates: tuple[FieldAggregate, ...]) -> None:
        self.declared = aggregates
        self.aggregates = tuple(aggregate for aggregate in aggregates if not aggregate.of_window)
        reads = [FieldKey(one.fields) if one.fields else _nothing for one in self.aggregates]
        self._adds = [_ADD[one.kind] if one.function is None else one.function.add_record for one in self.aggregates]
        self._steps = list(zip(self._adds, reads, strict=True))
        self._partial_steps = [add if step is _count else step for step in self._adds]
        self._merges = [_MERGE[one.kind] if one.function is None else one.function.merge_two for one in self.aggregates]
        self._results = [
            (index, _mean if one.function is None else one.function.result)
            for index, one in enumerate(self.aggregates)
            if one.kind in (AVG, USER)
        ]
        results = dict(self._results)
        self.steps = list(zip(self._adds, map(results.get, range(len(self._adds))), strict=True))
        """What adds a value to each part of an accumulator, and what makes the result of it; None: it is the result."""

    @property
    def in_any_order(self) -> bool:
        """Whether all aggregates are the same in any order of the records."""
        return all(one.in_any_order for one in self.aggregates)

    def create_accumulator(self) -> Accumulator:
        """Return the accumulator of no records."""
        return tuple([0 if step is _count else None for step in self._adds])

    def add(self, value: Any, accumulator: Accumulator) -> Accumulator:
        """Add a record. Raises TypeError for a value that can't be added, or a record without the field."""
        return tuple([step(before, read(value)) for (step, read), before in zip(self._steps, accumulator, strict=True)])

    def add_values(self, values: Sequence[Any], accumulator: Accumulator) -> Accumulator:
        """Add a record, of which the values that the aggregates read are given."""
        return tuple([step(before, value) for step, before, value in zip(self._adds, accumulator, values, strict=True)])

    def add_partial(self, partial: Sequence[Any], accumulator: Accumulator) -> Accumulator:
        """Add a partial aggregate: counts, sums, and least or greatest values, of none if they are None."""
        return tuple(
            [step(before, value) for step, before, value in zip(self._partial_steps, accumulator, partial, strict=True)]
        )

    def get_result(self, accumulator: Accumulator) -> Accumulator:
        """Return the values of the aggregates."""
        if not self._results:
            return accumulator
        results = list(accumulator)
        for index, result_of in self._results:
            if results[index] is not None:
                results[index] = result_of(results[index])
        return tuple(results)

    def merge(self, acc_a: Accumulator, acc_b: Accumulator) -> Accumulator:
        """Merge two accumulators. The records of the first have come before those of the second."""
        return tuple(
            [
                first if second is None else second if first is None else merge(first, second)
                for merge, first, second in zip(self._merges, acc_a, acc_b, strict=True)
            ]
        )

    def __repr__(self) -> str:
        names = (one.kind if one.function is None else one.function.class_name for one in self.aggregates)
        return ", ".join(f"{name}({', '.join(one.fields)})" for name, one in zip(names, self.aggregates, strict=True))


def _nothing(value: Any) -> bool:
    """Return a value to count for each record."""
    return True


def _mean(accumulator: tuple[Any, int]) -> Any:
    total, count = accumulator
    return total / count


def _count(before: Any, value: Any) -> Any:
    return before if value is None else before + 1


def _sum(before: Any, value: Any) -> Any:
    return before if value is None else value if before is None else before + value


def _least(before: Any, value: Any) -> Any:
    return before if value is None or (before is not None and not is_less(value, before)) else _without_sign(value)


def _greatest(before: Any, value: Any) -> Any:
    return before if value is None or (before is not None and not is_less(before, value)) else _without_sign(value)


def _average(before: Any, value: Any) -> Any:
    if value is None:
        return before
    return (value, 1) if before is None else (before[0] + value, before[1] + 1)


def _first(before: Any, value: Any) -> Any:
    return value if before is None else before


def _last(before: Any, value: Any) -> Any:
    return before if value is None else value


def _averages(first: Any, second: Any) -> Any:
    return first[0] + second[0], first[1] + second[1]


def _without_sign(value: Any) -> Any:
    return value + 0.0 if type(value) is float else value


_ADD = {
    COUNT: _count,
    SUM: _sum,
    MIN: _least,
    MAX: _greatest,
    AVG: _average,
    FIRST: _first,
    LAST: _last,
}
"""Each returns an accumulator with a value added, and ignores None."""
_MERGE = {**_ADD, COUNT: add, SUM: add, AVG: _averages}
"""Each returns what two accumulators are together, of which none is None."""


def field_aggregates(
    declared: Mapping[str, Any], key_fields: tuple[str, ...], names: Sequence[str] | None
) -> tuple[FieldAggregate, ...]:
    """Return the aggregates that a user has declared. `names`: the fields of the records, if they are known.

    Raises TypeError or ValueError if they can't be computed.
    """
    aggregates = tuple(_aggregate(name, aggregate) for name, aggregate in declared.items())
    if not aggregates:
        raise ValueError('expected one aggregate at least, e.g. {"n": "count"}')
    if len(set(key_fields)) < len(key_fields):
        raise ValueError(f"a field is in the key twice: {', '.join(key_fields)}. The results would have it twice")
    doubled = set(key_fields) & set(declared)
    if doubled:
        raise ValueError(f"{', '.join(sorted(doubled))} is a field of the key: give the aggregate another name")
    read = (*key_fields, *(field for one in aggregates for field in one.fields))
    unknown = [field for field in read if names is not None and field not in names]
    if unknown:
        raise ValueError(f"the records have no field {unknown[0]!r}: they have {', '.join(names or ())}")
    return aggregates


def with_families(
    aggregates: Sequence[FieldAggregate], record_type: TypeInformation | None
) -> tuple[FieldAggregate, ...]:
    """Return the aggregates with the families of their fields' types, as far as they are known.

    Raises TypeError for a field that a USER's aggregate cannot read, and for a sum or an average of other types than
    numbers.
    """
    if not isinstance(record_type, RowTypeInfo):
        return tuple(aggregates)
    types = dict(zip(record_type.get_field_names(), record_type.get_field_types(), strict=True))
    for one in aggregates:
        _check_number(one, types)
    return tuple(_with_family(one, types) for one in aggregates)


def _check_number(one: FieldAggregate, types: Mapping[str, TypeInformation]) -> None:
    """Raise TypeError for a sum or an average of what is not a number, such as a text. Source: Flink's SQL, SUM."""
    if one.kind not in (SUM, AVG) or one.field is None or one.field not in types or _may_be_number(types[one.field]):
        return
    numbers = [name for name, kind in types.items() if _may_be_number(kind)]
    raise TypeError(
        f"{one.name!r}: {one.kind} needs a field of numbers, and {one.field!r} has the type {types[one.field]}. "
        + (f"Fields of numbers: {', '.join(numbers)}" if numbers else "The records have no field of numbers")
    )


def _may_be_number(kind: TypeInformation) -> bool:
    return kind in _NUMBERS or isinstance(kind, (PickledBytesTypeInfo, ExternalTypeInfo))


def _with_family(one: FieldAggregate, types: Mapping[str, TypeInformation]) -> FieldAggregate:
    if one.function is not None:
        return one._replace(function=one.function.of_types(types))
    return one._replace(family=_family_of(types[one.field])) if one.field is not None and one.field in types else one


def _family_of(kind: TypeInformation) -> str:
    if kind in (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG()):
        return INTEGER
    return FLOAT if kind in (Types.FLOAT(), Types.DOUBLE()) else repr(kind)


def names_of(record_type: TypeInformation | None) -> Sequence[str] | None:
    """Return the names of the fields of records of this type; None if they are not known."""
    return record_type.get_field_names() if isinstance(record_type, RowTypeInfo) else None


def result_type(
    key_fields: tuple[str, ...], aggregates: tuple[FieldAggregate, ...], record_type: TypeInformation | None
) -> RowTypeInfo | None:
    """Return the type of the results; None if the type of the records is not known."""
    if not isinstance(record_type, RowTypeInfo):
        return None
    types = dict(zip(record_type.get_field_names(), record_type.get_field_types(), strict=True))
    if not set(key_fields) <= set(types):
        return None
    kinds = [types[field] for field in key_fields]
    kinds += [_type_of(aggregate, types) for aggregate in aggregates]
    return Types.ROW_NAMED([*key_fields, *(aggregate.name for aggregate in aggregates)], kinds)


def _type_of(aggregate: FieldAggregate, types: Mapping[str, TypeInformation]) -> TypeInformation:
    if aggregate.function is not None:
        return aggregate.function.result_type
    if aggregate.kind == COUNT or aggregate.field is None:
        return Types.LONG()
    kind = types[aggregate.field]
    is_integer = kind in (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG())
    if aggregate.kind == AVG:
        return Types.DOUBLE() if is_integer or kind == Types.FLOAT() else kind
    if aggregate.kind == SUM:
        return Types.LONG() if is_integer else Types.DOUBLE() if kind == Types.FLOAT() else kind
    return kind


def _aggregate(name: Any, declared: Any) -> FieldAggregate:
    if not isinstance(name, str):
        raise TypeError(f"the name of an aggregate must be a str, got {name!r}")
    if isinstance(declared, FieldAggregate):
        return declared
    if declared == COUNT or declared in _OF_WINDOWS:
        return FieldAggregate(name, declared)
    if (
        isinstance(declared, tuple)
        and len(declared) == 2
        and isinstance(declared[0], str)
        and declared[1] in _OF_FIELDS
    ):
        return FieldAggregate(name, declared[1], declared[0])
    raise ValueError(
        f"{name!r}: expected a field and what to compute of it, such as ('amount', 'sum'), or 'count', 'window_start' "
        f"or 'window_end', got {declared!r}. Of a field there are {', '.join(_OF_FIELDS)}. For others, pass "
        "fields and an instance of an ArrayAggregateFunction, such as (('price', 'amount'), WeightedMean()), or an "
        "AggregateFunction in place of the dict"
    )
