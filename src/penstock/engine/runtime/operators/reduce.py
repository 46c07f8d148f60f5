"""Running reduce on a keyed stream, and the combiner that goes before an aggregation's exchange in batched mode.

Pipelined, every record gives the reduced value so far; in batched mode only the last value of each key comes out, as in
Flink's BATCH. Source: Flink docs, "Operators", Reduce; "Execution Mode (Batch/Streaming)".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import RAISED
from penstock.common.types import Row
from penstock.common.types.replaced_field import declared_names, with_field
from penstock.common.values.copies import ATOMS, pair_of_atoms
from penstock.engine.runtime.operators.function import UserFunction, functions_behind
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator, Timestamps, Values, positions_taken
from penstock.engine.state.container_keys import as_key, converting, is_convertible
from penstock.engine.state.keys import encode_key

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.layers import LayeredTable


# sum, min, max, min_by and max_by on keyed streams: reduce functions over one field, or over the value itself.
#
# `min` and `max` replace the field and keep the rest of the first record; `min_by` and `max_by` keep the whole record
# that has it, the first one on a tie. Source: Flink docs, "Operators", Aggregations.


class FieldReduce:
    """Base: reads a field by position or name; position 0 of a value without fields is the value.

    Raises TypeError for a value that has no such field.
    """

    replaces = True
    """Whether records are made in which the field has another value."""

    def __init__(self, field: int | str) -> None:
        self.field = field

    def get(self, value: Any) -> Any:
        """The field of `value`."""
        field: Any = self.field
        try:
            if isinstance(value, (dict, Row)):
                return value[field]
            if isinstance(field, str):
                return getattr(value, field)
            if isinstance(value, (tuple, list)):
                return value[field]
        except (LookupError, AttributeError, ValueError) as error:
            raise self._missing(value) from error
        if field != 0 or declared_names(type(value)) is not None:
            raise self._missing(value)
        return value

    def check(self, value: Any) -> None:
        """Raise TypeError if records such as `value` lack the field, or it can't be replaced in them."""
        found = self.get(value)
        if self.replaces:
            self.put(value, found)

    def _missing(self, value: Any) -> TypeError:
        fields = list(value) if isinstance(value, dict) else getattr(value, "_fields", None)
        fields = declared_names(type(value)) if fields is None else fields
        if fields is not None:
            has = f"has {', '.join(map(str, fields))}"
        else:
            has = f"has {len(value)} of them" if isinstance(value, (tuple, list, Row)) else "has none"
        field = f"'{self.field}'" if isinstance(self.field, str) else f"at position {self.field}"
        return TypeError(f"there is no field {field}: the {type(value).__name__} {has}")

    def put(self, value: Any, new: Any) -> Any:
        """A copy of `value` with that field replaced. Raises TypeError if it can't be."""
        if self.field == 0 and not isinstance(value, (tuple, list, dict, Row)):
            return new
        try:
            return with_field(value, self.field, new)
        except Exception as error:
            raise TypeError(
                f"field {self.field!r} of the {type(value).__name__} can't be replaced: {error}. Use reduce, with a "
                "function that makes the record"
            ) from error


class SumReduce(FieldReduce):
    """Adds the field up."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        if type(value1) is tuple and len(value1) == 2 and self.field == 1:
            # (key, number), the shape of most sums: twice as fast as finding out what a value is made of.
            return value1[0], value1[1] + value2[1]
        return self.put(value1, self.get(value1) + self.get(value2))


class BestReduce(FieldReduce):
    """Keeps the least or greatest field (`whole`: the record that has it)."""

    def __init__(self, field: int | str, better: Callable[[Any, Any], bool], whole: bool) -> None:
        super().__init__(field)
        self.better = better
        self.whole = whole
        self.replaces = not whole

    def reduce(self, value1: Any, value2: Any) -> Any:
        new = self.get(value2)
        if not self.better(new, self.get(value1)):
            return value1
        return value2 if self.whole else self.put(value1, new)


REDUCED_TABLE = "(reduce)"
"""key -> reduced value. States that users name have no brackets."""

_ABSENT = object()


class ReduceOperator(KeyedOperator):
    """Keeps one value a key."""

    def __init__(self, name: str, key_selector: Callable[[Any], Any], function: UserFunction) -> None:
        super().__init__(name, key_selector)
        self.function = function

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._table = self.backend.layered(REDUCED_TABLE)
        self._reduced: Any = _ABSENT
        self._pair: tuple[type, type] = (int, int)
        self._latest: int | None = None

    def combiner(self) -> Operator | None:
        # A user's function need not be associative: one that counts, by `(a[0], a[1] + 1)`, would count senders.
        if not isinstance(self.function.instance, FieldReduce):
            return None
        return CombineOperator(f"{self.name} (combine)", self.key_selector, self.function)

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function", has_keyed_state=True),)

    def functions_replaced(self) -> None:
        # Others have no use for the current key, and setting it for each record has its price.
        self._sets_key = self.function.has_open
        self._is_first_chunk = True

    def open(self) -> None:
        super().open()
        self.function.open(self.context, self.backend.store())
        self.functions_replaced()

    def close(self) -> None:
        try:
            self.function.close(self.context)
        finally:
            super().close()

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        if self._is_first_chunk:
            self._is_first_chunk = False
            _look_up(self.function, values[0], self.context)
        if self.context.info.batched:
            return self._process_key(values, timestamps)
        keys = self.keys_of(values)
        current = self._each_current(keys) if self._sets_key else keys
        rest = iter(values)
        reduced: Values = []
        try:
            _reduce_chunk(current, rest, self._table, self.function.call, reduced.append, self.own, self._pair)
        except RAISED as error:
            position = positions_taken(values, rest)
            raise self.context.user_error(error, self.function.method, values[position], keys[position]) from error
        self._pair = pair_of_atoms(reduced, self._pair)
        return self.output.emit(reduced, timestamps)

    def _each_current(self, keys: list[Any]) -> Iterator[Any]:
        backend = self.backend
        for key in keys:
            backend.key = key
            yield key

    def _process_key(self, values: Values, timestamps: Timestamps) -> bool:
        """Batched mode: these are records of one key."""
        if self._sets_key:
            self.backend.key = self.keys_of(values[:1])[0]
        rest = iter(values)
        try:
            before = (self._reduced,) if self._reduced is not _ABSENT else ()
            self._reduced = functools.reduce(self.function.call, rest, *before)
        except RAISED as error:
            value = values[positions_taken(values, rest)]
            key = self.keys_of([value])[0]
            raise self.context.user_error(error, self.function.method, value, key) from error
        if timestamps is not None:
            self._latest = timestamps[-1]
        return True

    def end_key(self) -> bool:
        reduced, latest = self._reduced, self._latest
        self._reduced, self._latest = _ABSENT, None
        if self._sets_key:
            self.forget_key()
        return self.output.emit([self.own(reduced)], None if latest is None else [latest])


def _look_up(function: UserFunction, value: Any, context: OperatorContext) -> None:
    """Raise the error of a field that the first record lacks, or can't change: it would come with the second one."""
    if isinstance(function.instance, FieldReduce):
        try:
            function.instance.check(value)
        except RAISED as error:
            raise context.user_error(error, function.method, value) from error


def _reduce_chunk(
    keys: Iterable[Any],
    values: Any,
    table: LayeredTable,
    reduce: Any,
    append: Any,
    own: Any,
    pair: tuple[type, type],
) -> None:
    """Reduce records into `table`. `pair`: types of a pair of atoms, compared before a look into `ATOMS`."""
    layer, older, atoms, (first, second) = table.current, table.older, ATOMS, pair
    get = layer.get
    for key, value in zip(keys, values):  # noqa: B905
        before = get(key)
        if before is None:
            before = older(key)
        if before is not None:
            value = reduce(before, value)
        layer[key] = value
        # What is emitted is not what is kept: the function may change one of its arguments and return it.
        if type(value) is tuple and len(value) == 2:
            one, other = value
            if (type(one) is first or type(one) in atoms) and (type(other) is second or type(other) in atoms):
                append(value)
                continue
        append(value if type(value) in atoms else own(value))


class CombineOperator(Operator):
    """Batched mode: aggregates records of each key before they are sent. Sends all when it holds `keys_max` keys.

    It goes before sum, min, max, min_by and max_by, which give the same in parts. It aggregates what follows one
    another: records without timestamps in the order in which they come. Those with timestamps are sent as they are:
    they are aggregated in the order of time, in which others may come between them.
    """

    def __init__(
        self, name: str, key_selector: Callable[[Any], Any], function: UserFunction, keys_max: int = 50_000
    ) -> None:
        super().__init__(name)
        self.key_selector = key_selector
        self.function = function
        self._keys_max = keys_max
        self._functions: Sequence[UserFunction] = ()

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._table: dict[Any, Any] = {}
        self._totals: dict[Any, Any] = {}
        self._select = self.key_selector
        self._is_first_chunk = True

    def open(self) -> None:
        self._functions = [*functions_behind((self.key_selector,)), self.function]
        for function in self._functions:
            function.open(self.context)

    def close(self) -> None:
        for function in self._functions:
            function.close(self.context)

    def _settle_totals(self) -> None:
        """Move totals of sums into the table of reduced values."""
        for key, total in self._totals.items():
            self._table[key] = self.function.instance.put(self._table[key], total)
        self._totals.clear()

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        if timestamps is not None:
            # An exchange follows, which takes everything: it only says whether to go on.
            go_on = self.finish()
            return self.output.emit(values, timestamps) and go_on
        if self._is_first_chunk:
            self._is_first_chunk = False
            _look_up(self.function, values[0], self.context)
        table, summing = self._table, self.function.instance
        rest = iter(values)
        try:
            if isinstance(summing, SumReduce) and isinstance(summing.field, int) and set(map(type, values)) == {tuple}:
                _sum_chunk(rest, self._select, summing.field, table, self._totals)
            else:
                self._settle_totals()
                _combine_chunk(rest, self._select, self.function.call, table)
        except RAISED as error:
            failed = positions_taken(values, rest)
            value = values[failed]
            self._check_key(value)
            if self._select is self.key_selector and is_convertible(self.key_selector(value)):
                # The first key that is a list or dict: nothing has been done with it yet.
                self._select = converting(self.key_selector)
                return self.process(values[failed:], None)
            raise self.context.user_error(error, self.function.method, value) from error
        return self.finish() if len(table) >= self._keys_max else True

    def _check_key(self, value: Any) -> None:
        """Say what can be a key if that is why it failed, as the exchange would: "unhashable" says nothing."""
        try:
            encode_key(as_key(self.key_selector(value)))
        except RAISED as error:
            raise self.context.user_error(error, "key selector", value) from error

    def finish(self) -> bool:
        self._settle_totals()
        values = list(map(self.own, self._table.values()))
        self._table.clear()
        return self.output.emit(values, None)


def _combine_chunk(values: Any, select: Any, reduce: Any, table: dict[Any, Any]) -> None:
    get = table.get
    for value in values:
        key = select(value)
        before = get(key, _ABSENT)
        table[key] = value if before is _ABSENT else reduce(before, value)


def _sum_chunk(values: Any, select: Any, field: int, table: dict[Any, Any], totals: dict[Any, Any]) -> None:
    """Sums of one field: numbers are added in a dict of their own, tuples are made once per key, at the end."""
    get = totals.get
    for value in values:
        key = select(value)
        total = get(key)
        if total is not None:
            totals[key] = total + value[field]
        elif key in table:
            totals[key] = table[key][field] + value[field]
        else:
            table[key] = value
            totals[key] = value[field]
