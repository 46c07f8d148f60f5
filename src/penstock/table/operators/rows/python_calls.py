"""Calls of users' functions in tasks: on columns, with the function's errors as those of a row of SQL.

A general function is called in a loop over the Python values of its columns, one of pandas or Arrow once for a batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NoReturn

import numpy
import pyarrow as pa

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, MethodError, results_of
from penstock.engine.runtime.task.context import OperatorContext, StreamingRuntimeContext
from penstock.engine.runtime.task.metrics import OperatorMetricGroup
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.columns import Column, as_array, is_constant
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.registry import Context
from penstock.table.functions.user_values import reader_of, writer_of
from penstock.table.logical_types import LogicalType
from penstock.table.operators.rows.table_functions import Given
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.user_functions import FunctionContext, UserDefinedFunction

_BATCH_ROWS = 10_000


class PythonCall:
    """A function of the user's: picklable, bound to a call by `bound`, opened in each task.

    `kind`: general, pandas or arrow. `row_names`: the names of the columns if the function gets a whole row.
    """

    def __init__(
        self,
        name: str,
        function: Any,
        *,
        kind: str = "general",
        deterministic: bool = True,
        row_names: tuple[str, ...] | None = None,
    ) -> None:
        self.name = name
        self.function = function
        self.kind = kind
        self.deterministic = deterministic
        self._row_names = row_names

    def open(self, context: FunctionContext) -> None:
        """Call the function's `open`, if it has one."""
        if isinstance(self.function, UserDefinedFunction):
            self._guarded("open", lambda: self.function.open(context))

    def close(self) -> None:
        """Call the function's `close`, if it has one."""
        if isinstance(self.function, UserDefinedFunction):
            self._guarded("close", self.function.close)

    def bound(self, types: Sequence[LogicalType], result: LogicalType, sql: str) -> BoundCall:
        """Return the call with arguments of these types. `sql`: the part of the query that has the call.

        Raises UnsupportedPlanError if the function does not take so many arguments.
        """
        self._check_arguments(len(types))
        return BoundCall(self, types, result, sql)

    @property
    def callable(self) -> Callable[..., Any]:
        """The callable for the values of a row, or the columns of a batch."""
        function = self.function
        call: Any = getattr(function, "eval", None) if isinstance(function, UserDefinedFunction) else function
        if self._row_names is None:
            return call  # type: ignore[no-any-return]
        if self.kind == "general":
            from penstock.common.types import row_factory

            make = row_factory(self._row_names)
            return lambda *values: call(make(values))
        return _of_frames(call, self._row_names, self.kind)

    def _check_arguments(self, count: int) -> None:
        try:
            signature = inspect.signature(self.callable)
        except (TypeError, ValueError):
            # Of a function in C, such as NumPy's, it is not known.
            return
        try:
            signature.bind(*range(count))
        except TypeError as error:
            called = f"called with {count} argument{'s' * (count != 1)}"
            raise UnsupportedPlanError(f"the function {self.name}{signature} is {called}: {error}") from None

    def _guarded(self, method: str, call: Callable[[], Any]) -> None:
        try:
            call()
        except RAISED as error:
            raise MethodError(f"{self.name}.{method}", error) from error


class BoundCall:
    """A call of a function in a query."""

    def __init__(self, call: PythonCall, types: Sequence[LogicalType], result: LogicalType, sql: str) -> None:
        self._call = call
        self._function = call.callable
        self._result = arrow_type(result)
        self._type = result
        self._sql = sql
        self._readers = [reader_of(one) for one in types]
        self._no_null = f"{call.name} returned None for {result}, which is not nullable"
        self._writers: dict[str, Callable[[Sequence[Any]], pa.Array]] = {}

    def __call__(self, columns: Sequence[Column], context: Context) -> Column:
        """Return the results, a scalar if all arguments are and the function is deterministic."""
        is_once = self._call.deterministic and all(map(is_constant, columns))
        rows = 1 if is_once else context.rows
        if self._call.kind == "general":
            found = self._general(columns, rows, context.zone)
        elif rows:
            found = self._of_batch(columns, rows, context.zone)
        else:
            found = pa.array([], self._result)
        return found[0] if is_once else found

    def rows(self, columns: Sequence[Column], context: Context) -> tuple[list[int], pa.Array]:
        """Call a table function. Return how many rows each call has given, and all rows: a column of structs."""
        arguments = self._arguments(columns, context.rows)
        counts: list[int] = []
        found: list[Any] = []
        is_single = len(self._type.names) == 1
        try:
            for values in zip(*arguments, strict=True) if arguments else repeat((), context.rows):
                given = self._function(*values)
                before = len(found)
                found += [_as_row(one, is_single) for one in _rows_of(self._call.name, given)]
                counts.append(len(found) - before)
        except RAISED as error:
            self._fail(error, columns, len(counts))
        return counts, self._written(found, columns, context.zone, counts)

    def _general(self, columns: Sequence[Column], rows: int, zone: str) -> pa.Array:
        arguments = self._arguments(columns, rows)
        first = iter(arguments[0]) if arguments else iter(range(rows))
        function = self._function if arguments else lambda _: self._function()
        try:
            results = results_of(function, rows, first, *arguments[1:])
        except RAISED as error:
            self._fail(error, columns, _position(first, rows))
        return self._written(results, columns, zone)

    def _arguments(self, columns: Sequence[Column], rows: int) -> list[Any]:
        """Return the Python values of each argument."""
        arguments = []
        for column, read in zip(columns, self._readers, strict=True):
            if is_constant(column):
                arguments.append(list(repeat(read(pa.array([column.as_py()], column.type))[0], rows)))
            else:
                arguments.append(read(column))
        return arguments

    def _written(
        self, results: Sequence[Any], columns: Sequence[Column], zone: str, counts: Sequence[int] | None = None
    ) -> pa.Array:
        write = self._writers.get(zone) or self._writers.setdefault(zone, writer_of(self._type, zone))
        try:
            array = write(results)
            if array.null_count and not self._type.nullable and counts is None:
                self._fail(TypeError(self._no_null), columns, array.is_null().index(True).as_py())
            return array
        except MethodError:
            raise
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            place, found = next(((n, e) for n, one in enumerate(results) if (e := _refusal(write, one))), (0, error))
            # Arrow calls a text of any kind bytes.
            why = str(found).replace("Expected bytes", "expected str")
            text = f"{self._call.name} returned {results[place]!r:.200} for {self._type}: {why}"
            if counts is not None:
                place = next(row for row in range(len(counts)) if sum(counts[: row + 1]) > place)
            self._fail(TypeError(text), columns, place)

    def _of_batch(self, columns: Sequence[Column], rows: int, zone: str) -> pa.Array:
        arrays = [as_array(column, rows) for column in columns]
        more = f" and {rows - 1} more rows" if rows > 1 else ""
        try:
            arguments = [_series(one) for one in arrays] if self._call.kind == "pandas" else arrays
            found = self._function(*arguments)
            array = self._converted(found, rows, zone)
        except RAISED as error:
            self._fail(error, columns, 0, more)
        if array.null_count and not self._type.nullable:
            self._fail(TypeError(self._no_null), columns, array.is_null().index(True).as_py(), more)
        if len(array) != rows:
            text = f"{self._call.name} returned {len(array)} values for a batch of {rows} rows: return one for each"
            self._fail(TypeError(text), columns, 0, more)
        return array

    def _converted(self, found: Any, rows: int, zone: str) -> pa.Array:
        try:
            return self._array(found, rows, zone)
        except FunctionError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            kind = f"a column of {getattr(found, 'dtype', None) or getattr(found, 'type', type(found).__name__)}"
            raise FunctionError(f"{self._call.name} returned {kind} for {self._type}: {error}") from None

    def _array(self, found: Any, rows: int, zone: str) -> pa.Array:
        """Return what a function of batches has returned as a column."""
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if hasattr(found, "to_frame") and hasattr(found, "array"):
            return _of_series(found, self._result, lambda: writer_of(self._type, zone))
        if hasattr(found, "to_dict") and self._type.root == "ROW":
            return writer_of(self._type, zone)(list(found.itertuples(index=False, name=None)))
        if isinstance(found, pa.Scalar):
            return pa.repeat(found.cast(self._result), rows)
        if isinstance(found, pa.Array):
            return found if found.type == self._result else found.cast(self._result)
        if self._call.kind == "pandas" and hasattr(found, "dtype") and getattr(found, "ndim", 0) == 1:
            return pa.array(found).cast(self._result)
        what = "a pandas.Series" if self._call.kind == "pandas" else "an array of pyarrow"
        raise FunctionError(f"{self._call.name} must return {what}, got {type(found).__name__}")

    def _fail(self, error: BaseException, columns: Sequence[Column], place: int, more: str = "") -> NoReturn:
        shown = _Shown(self._call.name, [_shown(column, place) for column in columns], more)
        raise MethodError(f"{self._call.name}, which SQL calls in {self._sql}", error, shown) from error


class PythonTableFunction:
    """A table function of the user's, bound to a call. `columns`: those of its rows."""

    def __init__(
        self,
        call: PythonCall,
        types: Sequence[LogicalType],
        *,
        result: LogicalType,
        sql: str,
        columns: TableColumns,
    ) -> None:
        self._call = call
        self._types = tuple(types)
        self._result = result
        self._sql = sql
        self._schema = columns.schema

    def open(self, context: OperatorContext) -> None:
        """Call the function's `open`, if it has one."""
        open_calls([self._call], context)
        self._bound = self._call.bound(self._types, self._result, self._sql)

    def close(self) -> None:
        """Call the function's `close`, if it has one."""
        self._call.close()

    def rows(self, arguments: Sequence[Column], context: Context) -> Given:
        """Call the function for each row."""
        counts, rows = self._bound.rows(arguments, context)
        return Given(numpy.array(counts, numpy.int64), pa.RecordBatch.from_arrays(rows.flatten(), schema=self._schema))


def open_calls(calls: Iterable[PythonCall], context: OperatorContext) -> None:
    """Open functions in a task."""
    metrics = OperatorMetricGroup(context.counters)
    for call in calls:
        call.open(FunctionContext(StreamingRuntimeContext(context.info, metrics)))


class _Shown:
    """The repr of a call with its arguments, for errors."""

    def __init__(self, name: str, values: Sequence[Any], more: str) -> None:
        self._text = f"{name}({', '.join(f'{one!r:.200}' for one in values)}){more}"

    def __repr__(self) -> str:
        return self._text


def _shown(column: Column, place: int) -> Any:
    try:
        return (column if is_constant(column) else column[max(place, 0)]).as_py()
    except (ValueError, OverflowError, IndexError):
        return "?"


def _position(left: Iterator[Any], rows: int) -> int:
    """Return the row whose call failed: the last one that the loop has taken."""
    return rows - int(left.__length_hint__()) - 1  # type: ignore[attr-defined]


def _refusal(write: Callable[[Sequence[Any]], Any], value: Any) -> BaseException | None:
    try:
        write([value])
    except RAISED as error:
        return error
    return None


def _rows_of(name: str, given: Any) -> Any:
    """Return the rows that a table function has given: none, one, or an iterable of them. Raises FunctionError."""
    from penstock.common.types import Row

    if given is None:
        return ()
    if isinstance(given, (tuple, Row, str, bytes, dict)):
        return [given]
    if not isinstance(given, Iterable):
        raise FunctionError(f"{name} returned {given!r:.200}: a table function yields rows, or returns a list of them")
    return given


def _as_row(one: Any, is_single: bool) -> Any:
    from penstock.common.types import Row

    if not is_single or isinstance(one, (Row, tuple)):
        return one
    return (one,)


def _series(column: pa.Array) -> Any:
    """Return a Series as PyFlink's functions get it: whole numbers with NULL are floats with NaN."""
    return column.to_pandas()


def _of_series(series: Any, kind: pa.DataType, writer: Callable[[], Callable[[Sequence[Any]], pa.Array]]) -> pa.Array:
    if pa.types.is_nested(kind) or pa.types.is_decimal(kind) or series.dtype == object:
        values = series.tolist()
        return writer()([None if one is None or (isinstance(one, float) and one != one) else one for one in values])
    array = pa.Array.from_pandas(series)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_timestamp(kind) and kind.tz is not None and array.type.tz is None:
        array = array.cast(pa.timestamp(array.type.unit))
    return array if array.type == kind else array.cast(kind, safe=not pa.types.is_floating(array.type))


def _of_frames(call: Callable[..., Any], names: tuple[str, ...], kind: str) -> Callable[..., Any]:
    """Return a function of columns that calls one of a DataFrame, or of a record batch."""

    def of_columns(*columns: Any) -> Any:
        if kind == "pandas":
            import pandas

            return call(pandas.DataFrame(dict(zip(names, columns, strict=True))))
        return call(pa.RecordBatch.from_arrays(list(columns), names=list(names)))

    return of_columns
