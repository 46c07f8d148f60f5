"""Running reduce on a keyed stream, and the combiner before an aggregation's exchange in batched mode.

In pipelined mode, reduce emits the value so far for every record; in batched mode it emits only the last value of each
key, as in Flink's BATCH. Source: Flink docs, "Operators", Reduce; "Execution Mode (Batch/Streaming)".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.quick_selectors import items_read_by
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import Row
from penstock.common.types.record_fields import missing_field
from penstock.common.types.replaced_field import declared_names, with_field
from penstock.common.types.unreadable import is_unread
from penstock.common.values.copies import ATOMS, pair_of_atoms
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.function import UserFunction, functions_behind
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator, last_position
from penstock.engine.state.container_keys import as_key, converting, is_convertible
from penstock.engine.state.keys import encode_key

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.layers import LayeredTable


class FieldReduce:
    """Base of sum, min, max, min_by and max_by on keyed streams: reduce functions over one field.

    The field has a position or a name; position 0 of a value without fields is the value. Raises TypeError for a value
    that lacks the field. `min` and `max` replace the field and keep the rest of the first record; `min_by` and `max_by`
    keep the whole record that has it, the first one on a tie. Source: Flink docs, "Operators", Aggregations.
    """

    replaces = True
    """Whether the function creates records with another value of the field."""

    def __init__(self, field: int | str) -> None:
        self.field = field

    def get(self, value: Any) -> Any:
        """Return the field of `value`."""
        field: Any = self.field
        try:
            if isinstance(value, (dict, Row)):
                return value[field]
            if isinstance(field, str):
                return getattr(value, field)
            if isinstance(value, (tuple, list)):
                return value[field]
        except (LookupError, AttributeError, ValueError) as error:
            raise missing_field(value, field) from error
        if field != 0 or declared_names(type(value)) is not None:
            raise missing_field(value, field)
        return value

    def check(self, value: Any) -> None:
        """Raise TypeError if `value` lacks the field, or the field can't be replaced."""
        field = self.get(value)
        if self.replaces:
            self.put(value, field)

    def keeps_key(self, value: Any, select: Callable[[Any], Any], key: Any) -> bool:
        """Return whether a record that is made of `value` has the key of `value`, whatever its field becomes."""
        if not self.replaces:
            return True
        if self._is_whole(value):
            # The field is the record, from which the selector takes the key.
            return is_unread((value,), 0, lambda record: select(record[0]), key)
        return is_unread(value, self.field, select, key)

    def kinds_that_keep_keys(self, select: Callable[[Any], Any]) -> frozenset[type]:
        """Return types of records for which `keeps_key` is true for certain: the selector is known to read others."""
        read = items_read_by(select)
        if read is None or self.field in read or not self.replaces:
            return frozenset()
        items = (self.field, *read)
        # A negative position may be one of the others.
        if all(isinstance(item, int) and item >= 0 for item in items):
            return frozenset((tuple,))
        return frozenset((dict, Row) if all(isinstance(item, str) for item in items) else ())

    def _is_whole(self, value: Any) -> bool:
        """Return whether the record itself is the field."""
        return self.field == 0 and not isinstance(value, (tuple, list, dict, Row))

    def put(self, value: Any, new: Any) -> Any:
        """Return a copy of `value` with the field replaced. Raises TypeError if that fails."""
        if self._is_whole(value):
            return new
        try:
            return with_field(value, self.field, new)
        except Exception as error:
            raise TypeError(
                f"field {self.field!r} of the {type(value).__name__} can't be replaced: {error}. Use reduce, with a "
                "function that creates the record"
            ) from error


class SumReduce(FieldReduce):
    """Adds the field up."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        if type(value1) is tuple and len(value1) == 2 and self.field == 1:
            # (key, number) is the shape of most sums: this is twice as fast as checking the type of the value.
            return value1[0], value1[1] + value2[1]
        return self.put(value1, self.get(value1) + self.get(value2))


class BestReduce(FieldReduce):
    """Keeps the least or greatest field; with `whole` the record that has it."""

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
"""key -> reduced value. Names in brackets can't collide with names of users' states."""

_ABSENT = object()


class ReduceOperator(KeyedOperator):
    """Keeps one value per key."""

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
        # A user's function may not be associative: one that counts, by `(a[0], a[1] + 1)`, would count senders.
        function = self.function.instance
        if not isinstance(function, FieldReduce) and not getattr(function, "is_combinable", False):
            return None
        return CombineOperator(f"{self.name} (combine)", self.key_selector, self.function)

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function", has_keyed_state=True),)

    def functions_replaced(self) -> None:
        # Without `open` a function has no keyed state and needs no current key, which costs time per record.
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

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        if self._is_first_chunk:
            self._is_first_chunk = False
            _check_field(self.function, values[0], self.context)
        if self.context.mode.ends_keys:
            return self._process_key(chunk)
        keys = self.keys_of(values)
        current = self._each_current(keys) if self._sets_key else keys
        rest = iter(values)
        reduced: Values = []
        try:
            _reduce_chunk(
                current,
                rest,
                table=self._table,
                reduce=self.function.call,
                append=reduced.append,
                copy=self.copy_value,
                pair=self._pair,
            )
        except RAISED as error:
            position = last_position(values, rest)
            raise self.context.user_error(error, self.function.method, values[position], keys[position]) from error
        self._pair = pair_of_atoms(reduced, self._pair)
        return self.output.emit(Rows(reduced, chunk.timestamps))

    def _each_current(self, keys: list[Any]) -> Iterator[Any]:
        backend = self.backend
        for key in keys:
            backend.key = key
            yield key

    def _process_key(self, chunk: Rows) -> bool:
        """Batched mode: reduce records of one key."""
        values = chunk.values
        if self._sets_key:
            self.backend.key = self.keys_of(values[:1])[0]
        rest = iter(values)
        try:
            before = (self._reduced,) if self._reduced is not _ABSENT else ()
            self._reduced = functools.reduce(self.function.call, rest, *before)
        except RAISED as error:
            value = values[last_position(values, rest)]
            key = self.keys_of([value])[0]
            raise self.context.user_error(error, self.function.method, value, key) from error
        if chunk.timestamps is not None:
            self._latest = chunk.timestamps[-1]
        return True

    def end_key(self) -> bool:
        reduced, latest = self._reduced, self._latest
        self._reduced, self._latest = _ABSENT, None
        if self._sets_key:
            self.forget_key()
        return self.output.emit(Rows([self.copy_value(reduced)], None if latest is None else [latest]))


def _check_field(function: UserFunction, value: Any, context: OperatorContext) -> None:
    """Raise an error if the first record lacks the field. Without this the second record would raise it."""
    if isinstance(function.instance, FieldReduce):
        try:
            function.instance.check(value)
        except RAISED as error:
            raise context.user_error(error, function.method, value) from error


def _reduce_chunk(
    keys: Iterable[Any],
    values: Any,
    *,
    table: LayeredTable,
    reduce: Any,
    append: Any,
    copy: Any,
    pair: tuple[type, type],
) -> None:
    """Reduce records into `table`. `pair`: the types of the last pair of atoms, which are compared first."""
    layer, older, atoms, (first, second) = table.current, table.older, ATOMS, pair
    get = layer.get
    for key, value in zip(keys, values):  # noqa: B905
        before = get(key)
        if before is None:
            before = older(key)
        if before is not None:
            value = reduce(before, value)
        layer[key] = value
        # Emit a copy of the stored value: the function may change one of its arguments and return it.
        if type(value) is tuple and len(value) == 2:
            one, other = value
            if (type(one) is first or type(one) in atoms) and (type(other) is second or type(other) in atoms):
                append(value)
                continue
        append(value if type(value) in atoms else copy(value))


class CombineOperator(Operator):
    """Batched mode: aggregates records of each key before they are sent. Sends all when it holds `keys_max` keys.

    It precedes sum, min, max, min_by and max_by, whose partial results can be combined, and users' functions that say
    so. It aggregates records without
    timestamps, in the order of arrival. It forwards records with timestamps: these are aggregated in the order of time,
    where records of other senders may come between them.

    A partial result goes where its key selector sends it, so the key must not depend on the field that is aggregated.
    From the first key that does on, records are forwarded.
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
        self._combines = True

    def open(self) -> None:
        self._functions = [*functions_behind((self.key_selector,)), self.function]
        for function in self._functions:
            function.open(self.context)
        # Where this is certain, checking each new key would take a third of the time.
        combined = self.function.instance
        known = combined.kinds_that_keep_keys(self.key_selector) if isinstance(combined, FieldReduce) else ()
        self._keeping = frozenset(known)

    def close(self) -> None:
        for function in self._functions:
            function.close(self.context)

    def _settle_totals(self) -> None:
        """Move totals of sums into the table of reduced values."""
        for key, total in self._totals.items():
            self._table[key] = self.function.instance.put(self._table[key], total)
        self._totals.clear()

    def process(self, chunk: Rows) -> bool:
        if chunk.timestamps is not None:
            # An exchange follows, which accepts everything: its result only says whether to stop for now.
            may_continue = self.finish()
            return self.output.emit(chunk) and may_continue
        values = chunk.values
        if self._is_first_chunk:
            self._is_first_chunk = False
            _check_field(self.function, values[0], self.context)
        if not self._combines:
            return self.output.emit(chunk)
        table, summing = self._table, self.function.instance
        rest = iter(values)
        try:
            if isinstance(summing, SumReduce) and isinstance(summing.field, int) and set(map(type, values)) == {tuple}:
                _sum_chunk(
                    rest, self._select, summing, table=table, totals=self._totals, is_kept=tuple in self._keeping
                )
            else:
                self._settle_totals()
                reduce, keeping = self.function.call, self._keeping
                _combine_chunk(rest, self._select, reduce, table=table, aggregate=summing, keeping=keeping)
        except _KeyChangesError:
            self._combines = False
            may_continue = self.finish()
            return self.output.emit(chunk.part(last_position(values, rest))) and may_continue
        except RAISED as error:
            position = last_position(values, rest)
            value = values[position]
            self._check_key(value)
            if self._select is self.key_selector and is_convertible(self.key_selector(value)):
                # This is the first key that is a list or dict. Its record has not been processed yet.
                self._select = converting(self.key_selector)
                return self.process(chunk.part(position))
            raise self.context.user_error(error, self.function.method, value) from error
        return self.finish() if len(table) >= self._keys_max else True

    def _check_key(self, value: Any) -> None:
        """Raise the error of an invalid key, as the exchange would: it explains more than "unhashable"."""
        try:
            encode_key(as_key(self.key_selector(value)))
        except RAISED as error:
            raise self.context.user_error(error, "key selector", value) from error

    def finish(self) -> bool:
        self._settle_totals()
        values = list(map(self.copy_value, self._table.values()))
        self._table.clear()
        return self.output.emit(Rows(values))


class _KeyChangesError(Exception):
    """The key of a record depends on the field that is aggregated."""


def _combine_chunk(
    values: Any, select: Any, reduce: Any, *, table: dict[Any, Any], aggregate: Any, keeping: frozenset[type]
) -> None:
    get, checked = table.get, isinstance(aggregate, FieldReduce)
    for value in values:
        key = select(value)
        before = get(key, _ABSENT)
        if before is not _ABSENT:
            table[key] = reduce(before, value)
            continue
        if checked and type(value) not in keeping and not aggregate.keeps_key(value, select, key):
            raise _KeyChangesError
        table[key] = value


def _sum_chunk(
    values: Any,
    select: Any,
    summing: SumReduce,
    *,
    table: dict[Any, Any],
    totals: dict[Any, Any],
    is_kept: bool,
) -> None:
    """Sum one field: add numbers in `totals`, so that each key's tuple is created once, at the end."""
    get, field = totals.get, summing.field
    for value in values:
        key = select(value)
        total = get(key)
        if total is not None:
            totals[key] = total + value[field]
        elif key in table:
            totals[key] = table[key][field] + value[field]
        else:
            if not is_kept and not summing.keeps_key(value, select, key):
                raise _KeyChangesError
            table[key] = value
            totals[key] = value[field]
