"""Partial contents of full windows: in BATCH each sender adds its records up, and sends one value per key.

    records ─▶ PartialCombiner ─▶ exchange by key ─▶ window operator, which merges parts

Both kinds of values may arrive: in STREAMING there is no combiner, and all are records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.function import functions_behind
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator, last_position
from penstock.engine.runtime.windows.contents import Contents
from penstock.engine.state.container_keys import as_keys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import Slice
    from penstock.engine.state.tables import Layer

_ABSENT = object()


class Partial:
    """The contents of some records of a key."""

    __slots__ = ("contents", "key")

    def __init__(self, key: Any, contents: Any) -> None:
        self.key = key
        self.contents = contents

    def __reduce__(self) -> tuple[Any, ...]:
        return Partial, (self.key, self.contents)


class KeyOfPartial:
    """Selects the key of a record, or of partial contents."""

    def __init__(self, select: Callable[[Any], Any]) -> None:
        self.selectors = (select,)

    def __call__(self, value: Any) -> Any:
        return value.key if type(value) is Partial else self.selectors[0](value)


class MergedContents(Contents):
    """The contents of all records of a key, from records and partial contents."""

    def __init__(self, whole: Contents) -> None:
        self.whole = whole
        self.type_info = whole.type_info
        self.method = whole.method
        self.result_is_computed = whole.result_is_computed

    def combiner(self, name: str, key_selector: Callable[[Any], Any]) -> Operator | None:
        return PartialCombiner(f"{name} (combine)", key_selector, self.whole)

    def function_places(self) -> Sequence[FunctionPlace]:
        return self.whole.function_places()

    def functions_replaced(self) -> None:
        self.whole.functions_replaced()
        self.method = self.whole.method

    def open(self, context: OperatorContext) -> None:
        self.whole.open(context)

    def close(self, context: OperatorContext) -> None:
        self.whole.close(context)

    def first(self, value: Any) -> Any:
        return value.contents if type(value) is Partial else self.whole.first(value)

    def add(self, value: Any, contents: Any) -> Any:
        whole = self.whole
        return whole.merge(contents, value.contents) if type(value) is Partial else whole.add(value, contents)

    def merge(self, contents: Any, others: Any) -> Any:
        return self.whole.merge(contents, others)

    def result(self, contents: Any) -> Any:
        return self.whole.result(contents)

    def add_records(self, keys: list[Any], values: Iterator[Any], table: Slice, new_keys: list[Layer]) -> None:
        raise AssertionError("full windows have no slices")

    def elements(self, contents: Any) -> list[Any]:
        return self.whole.elements(contents)

    def elements_of(self, values: list[Any]) -> list[Any]:
        raise AssertionError("full windows of one value have no evictor")


class PartialCombiner(Operator):
    """Batched mode: adds records of each key up, and sends the contents when it holds `keys_max` keys, and at the end.

    Timestamps are dropped: results of a full window have that of its end.
    """

    keeps_values = True
    gives_parts = True

    def __init__(
        self, name: str, key_selector: Callable[[Any], Any], contents: Contents, keys_max: int = 50_000
    ) -> None:
        super().__init__(name)
        self.key_selector = key_selector
        self.contents = contents
        self._keys_max = keys_max

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._table: dict[Any, Any] = {}
        self._functions = functions_behind((self.key_selector,))

    def open(self) -> None:
        for function in self._functions:
            function.open(self.context)
        self.contents.open(self.context)

    def close(self) -> None:
        try:
            self.contents.close(self.context)
        finally:
            for function in self._functions:
                function.close(self.context)

    def process(self, chunk: Rows) -> bool:
        values, table = chunk.values, self._table
        rest = iter(values)
        get, first, add, method = table.get, self.contents.first, self.contents.add, "key selector"
        try:
            keys = as_keys(list(map(self.key_selector, rest)))
            rest, method = iter(values), self.contents.method
            for key, value in zip(keys, rest):  # noqa: B905
                before = get(key, _ABSENT)
                table[key] = first(value) if before is _ABSENT else add(value, before)
        except RAISED as error:
            raise self.context.user_error(error, method, values[last_position(values, rest)]) from error
        return self.finish() if len(table) >= self._keys_max else True

    def finish(self) -> bool:
        partial = [Partial(key, contents) for key, contents in self._table.items()]
        self._table.clear()
        return self.output.emit(Rows(partial)) if partial else True
