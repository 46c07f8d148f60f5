"""Windowed streams: windows for each key (WindowedStream) or for all records (AllWindowedStream).

Source: Flink docs, "Windows".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock.api.output_tag import OutputTag
from penstock.api.windows.assigner import MergingWindowAssigner, WindowAssigner
from penstock.api.windows.evictor import Evictor
from penstock.api.windows.trigger import Trigger
from penstock.common.functions.aggregate_results import WindowResult
from penstock.common.functions.result_kinds import check_method_kinds
from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.common.types import Row
from penstock.datastream.arguments import as_function, check_aggregate, check_output_tag, output_type_of
from penstock.datastream.array_aggregation import check_may_merge
from penstock.datastream.data_stream import DataStream
from penstock.datastream.field_aggregation import FieldAggregation, field_aggregation, fields_of_key
from penstock.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    NullByteKeySelector,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.datastream.next_call import Unfinished
from penstock.engine.plan.call_capture import CapturedParts, captured, captured_parts
from penstock.engine.plan.transformations import OperatorTransformation
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.windows.choice import column_window_operator, window_operator
from penstock.engine.runtime.windows.column_choice import ColumnWindowsChoice
from penstock.engine.runtime.windows.contents import Aggregated, AllRecords, Contents, Reduced
from penstock.engine.runtime.windows.evaluation import Apply, ApplyToAll, Evaluation, Process, ProcessAll
from penstock.engine.runtime.windows.windowing import WindowingOperator, WindowSettings

if TYPE_CHECKING:
    from typing import Self

    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

ChooseOperator = Callable[[str, Callable[[Any], Any], WindowSettings], WindowingOperator]

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")


class _Windows(Unfinished, Generic[T]):
    """Base class of windowed streams: settings, and construction of the operator."""

    next_call = "reduce, aggregate, apply or process, and a function"

    _kind = "Window"
    _apply_interface: type = WindowFunction
    _apply: Callable[[UserFunction], Evaluation] = Apply
    _process_interface: type = ProcessWindowFunction
    _process: Callable[[UserFunction], Evaluation] = Process

    def __init__(self, keyed_stream: KeyedStream[T, Any], window_assigner: WindowAssigner[Any, Any]) -> None:
        _require_instance(window_assigner, WindowAssigner, "TumblingEventTimeWindows.of(Time.minutes(5))")
        check_method_kinds(window_assigner, WindowAssigner)
        self._keyed_stream = keyed_stream
        self._assigner = window_assigner
        self._trigger = window_assigner.get_default_trigger(keyed_stream.get_execution_environment())
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag[Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None
        self._captured: CapturedParts = {}
        """Assigner, trigger and evictor as they were at the calls that set them: later changes have no effect."""
        self._check_trigger(self._trigger)
        self._capture(window_assigner)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that created the stream."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the type of the records in the windows."""
        return self._keyed_stream.get_type()

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set the trigger, which replaces the assigner's default.

        Raises TypeError if it is not a Trigger, or if windows merge and the trigger can't.
        """
        _require_instance(trigger, Trigger, "CountTrigger.of(10)")
        check_method_kinds(trigger, Trigger)
        self._check_trigger(trigger)
        self._capture(trigger)
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Let `evictor` remove records when the window fires, before or after its function is called.

        State then holds every record of a window with its timestamp, and `reduce` and `aggregate` are computed again at
        each firing. Raises TypeError if it is not an Evictor. Source: Flink docs, "Windows", Evictors.
        """
        _require_instance(evictor, Evictor, "CountEvictor.of(100)")
        check_method_kinds(evictor, Evictor)
        self._capture(evictor)
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: TimeLength) -> Self:
        """Keep windows for `time_ms` milliseconds of event time after their end, and update them with late records.

        A late record within that time fires its window again immediately (default trigger). A later record goes to
        `side_output_late_data` if it is set; else it is dropped and counted in numLateRecordsDropped. Records are never
        late in processing time. Default: 0. Raises ValueError if negative. Source: Flink docs, "Windows", Allowed
        Lateness.
        """
        lateness_ms = to_milliseconds(time_ms)
        if lateness_ms < 0:
            raise ValueError(f"the allowed lateness must be 0 ms or more, got {lateness_ms} ms")
        self._allowed_lateness_ms = lateness_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Send records that are late for all of their windows to a side output instead of dropping them.

        Read it with `get_side_output(output_tag)` of the result. Raises TypeError if it is not an OutputTag.
        """
        check_output_tag(output_tag)
        self._late_tag = output_tag
        return self

    @overload
    def reduce(
        self, reduce_function: ReduceFunction[T] | Callable[[T, T], T], *, output_type: TypeInformation | None = None
    ) -> DataStream[T]: ...
    @overload
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]: ...
    def reduce(
        self,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Reduce the records of a window incrementally. `window_function`, if given, receives the reduced value.

        State holds one value per window instead of its records. The function receives the records of a window in the
        order of arrival. A record of sliding windows is reduced in each of its windows; `aggregate` can share partial
        results between them. Raises TypeError if an argument is not a function. Source: Flink docs, "Windows",
        ReduceFunction.
        """
        function = as_function(reduce_function, "reduce", ReduceFunction)
        input_type = self._keyed_stream._transformation.output_type
        evaluation, declared = self._evaluation(window_function, output_type, input_type)
        return self._result(Reduced(function, input_type), evaluation, function.method, declared)

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, R],
        *,
        accumulator_type: TypeInformation | list[TypeInformation] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]: ...
    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, Any],
        window_function: Any = None,
        accumulator_type: TypeInformation | list[TypeInformation] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]: ...
    @overload
    def aggregate(self, aggregate_function: Mapping[str, Any]) -> DataStream[Row]: ...
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, Any] | Mapping[str, Any],
        window_function: Any = None,
        accumulator_type: TypeInformation | list[TypeInformation] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Aggregate the records of a window incrementally. `window_function`, if given, receives the result.

        State holds one accumulator per window instead of its records. Sliding windows share partial results if the
        function's `shares_slices` is True. Raises TypeError if it is not an AggregateFunction. Source: Flink docs,
        "Windows", AggregateFunction.

        Instead of a function, a dict names results and what they are: `{"n": "count", "total": ("amount", "sum")}`, on
        a stream with `key_by` of fields. Of a field there are "count", "sum", "min", "max", "avg", "first" and "last";
        the two last go by the order in which records come. Others are fields and an ArrayAggregateFunction, such as
        `(("price", "amount"), WeightedMean())`; windows that merge need its `merge`. "window_start" and "window_end"
        are the window's bounds (ms). Results are Rows of the key's fields and these. None is ignored, and NaN is
        greater than all other numbers. On columns, and on rows whose fields have declared types, aligned windows
        compute whole batches. Raises ValueError for a field that the declared type lacks, and TypeError or ValueError
        for an ArrayAggregateFunction that can't be used. This is not in PyFlink.
        """
        if isinstance(aggregate_function, Mapping):
            if window_function is not None or accumulator_type is not None or output_type is not None:
                raise TypeError("aggregates of fields take no other argument: their types and results are known")
            return self._aggregate_fields(aggregate_function)
        self._check_aggregate(aggregate_function)
        function = UserFunction(aggregate_function, "add")
        if isinstance(accumulator_type, list):
            accumulator_type = RowTypeInfo(accumulator_type)
        if accumulator_type is not None:
            _require_instance(accumulator_type, TypeInformation, "Types.LONG()")
        result_type = output_type_of(aggregate_function, "get_result", None if window_function else output_type)
        evaluation, declared = self._evaluation(window_function, output_type, result_type)
        name = type(aggregate_function).__name__
        return self._result(Aggregated(function, accumulator_type), evaluation, name, declared)

    def _aggregate_fields(self, declared: Mapping[str, Any]) -> DataStream[Any]:
        of_fields = field_aggregation(self._keyed_stream._transformation, self._key_fields(), declared)
        function, row_type = of_fields.function, of_fields.result_type
        if isinstance(self._assigner, MergingWindowAssigner):
            check_may_merge(function.aggregates)
        contents = Aggregated(UserFunction(function, "add"))
        evaluation = Apply(UserFunction(WindowResult(function.declared, of_fields.result_rows()), "apply"))
        choose: ChooseOperator = window_operator
        if row_type is not None and of_fields.columns is not None:
            choose = partial(
                column_window_operator,
                function,
                of_fields.key_fields,
                columns=of_fields.columns,
                result_type=row_type,
            )
        result = self._result(contents, evaluation, repr(function), row_type, choose=choose)
        if of_fields.columns is None:
            self._may_run_on_columns(result, of_fields, contents, evaluation)
        return result

    def _may_run_on_columns(
        self, result: DataStream[Any], of_fields: FieldAggregation, contents: Contents, evaluation: Evaluation
    ) -> None:
        """Let the plan decide whether windows of rows run on columns."""
        transformation = result._transformation
        assert isinstance(transformation, OperatorTransformation)
        transformation.on_columns = ColumnWindowsChoice(
            key_selector=self._keyed_stream.key_selector,
            key_fields=of_fields.key_fields,
            aggregates=of_fields.function,
            settings=self._settings(contents, evaluation),
            record_type=self._keyed_stream._transformation.output_type,
            result_type=of_fields.result_type,
        )

    def _key_fields(self) -> tuple[str, ...]:
        return fields_of_key(self._keyed_stream.key_selector)

    def _applied(self, window_function: Any, output_type: TypeInformation | None) -> DataStream[Any]:
        function = as_function(window_function, "apply", self._apply_interface)
        declared = output_type_of(window_function, "apply", output_type, elements=True)
        return self.evaluated(type(self)._apply(function), declared)

    def _processed(self, process_window_function: Any, output_type: TypeInformation | None) -> DataStream[Any]:
        function = as_function(process_window_function, "process", self._process_interface)
        declared = output_type_of(process_window_function, "process", output_type, elements=True)
        return self.evaluated(type(self)._process(function), declared)

    def evaluated(self, evaluation: Evaluation, output_type: TypeInformation | None) -> DataStream[Any]:
        """Evaluate all records of a window when it fires."""
        return self._result(self._all_records(), evaluation, evaluation.method, output_type)

    def _all_records(self) -> AllRecords:
        return AllRecords(self._keyed_stream._transformation.output_type)

    def _evaluation(
        self, function: Any, output_type: TypeInformation | None, result_type: TypeInformation | None
    ) -> tuple[Evaluation, TypeInformation | None]:
        """Return the evaluation of a window's single value, and the type of the result."""
        if function is None:
            return Evaluation(), output_type or result_type
        process = not isinstance(function, type) and callable(getattr(function, "process", None))
        method = "process" if process else "apply"
        interface = self._process_interface if process else self._apply_interface
        wrap = type(self)._process if process else type(self)._apply
        declared = output_type_of(function, method, output_type, elements=True)
        return wrap(as_function(function, method, interface)), declared

    def _capture(self, part: Any) -> None:
        self._captured.update(captured_parts([part]))

    def _check_trigger(self, trigger: Trigger[Any, Any]) -> None:
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError(
                f"{self._assigner!r} merges windows, which {trigger!r} does not support: it must define on_merge(), "
                "and can_merge() must return True"
            )

    def _check_aggregate(self, function: Any) -> None:
        check_aggregate(function, merges=isinstance(self._assigner, MergingWindowAssigner))

    def _result(
        self,
        contents: Contents,
        evaluation: Evaluation,
        function: str,
        output_type: TypeInformation | None,
        choose: ChooseOperator = window_operator,
    ) -> DataStream[Any]:
        name = type(self._assigner).__name__
        settings = self._settings(contents, evaluation)
        operator = choose(name, self._keyed_stream.key_selector, settings)
        operator.captured = captured(operator, self._captured)
        functions = (
            function
            if evaluation.emits_contents or function == evaluation.method
            else f"{function}, {evaluation.method}"
        )
        result = self._keyed_stream._keyed_operator(name, operator, output_type)
        evictor = f", {self._evictor!r}" if self._evictor is not None else ""
        return result.set_description(f"{self._kind}({self._assigner!r}, {self._trigger!r}{evictor}, {functions})")

    def _settings(self, contents: Contents, evaluation: Evaluation) -> WindowSettings:
        return WindowSettings(
            assigner=self._assigner,
            trigger=self._trigger,
            contents=contents,
            evaluation=evaluation,
            allowed_lateness_ms=self._allowed_lateness_ms,
            late_tag=self._late_tag,
            evictor=self._evictor,
        )


class WindowedStream(_Windows[T], Generic[T, K]):
    """Windows of each key, created by `KeyedStream.window`.

    Window functions are `apply(key, window, inputs)` or `process(key, context, elements)`. A plain callable passed to
    reduce or aggregate has the parameters of `apply`.
    """

    def apply(
        self,
        window_function: WindowFunction[T, R, K, Any] | Callable[[K, Any, Iterable[T]], Iterable[R]],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call a function with all records of a window when it fires. It is a generator or returns an iterable.

        State holds every record until its window ends. Raises TypeError if it is not a function.
        """
        return self._applied(window_function, output_type)

    def process(
        self, process_window_function: ProcessWindowFunction[T, R, K, Any], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Call a function like `apply`, with a context of window, times and state. It may have side outputs.

        State holds every record until its window ends. Raises TypeError if it is not a function.
        """
        return self._processed(process_window_function, output_type)


class AllWindowedStream(_Windows[T]):
    """Windows of all records, computed by one subtask, created by `DataStream.window_all`.

    Window functions are `apply(window, inputs)` or `process(context, elements)`. A plain callable passed to reduce or
    aggregate has the parameters of `apply`.
    """

    _kind = "AllWindow"
    _apply_interface = AllWindowFunction
    _apply = ApplyToAll
    _process_interface = ProcessAllWindowFunction
    _process = ProcessAll

    def __init__(self, data_stream: DataStream[T], window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(data_stream.key_by(NullByteKeySelector()), window_assigner)

    def _key_fields(self) -> tuple[str, ...]:
        return ()

    def apply(
        self,
        window_function: AllWindowFunction[T, R, Any] | Callable[[Any, Iterable[T]], Iterable[R]],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call a function with all records of a window when it fires. It is a generator or returns an iterable.

        State holds every record until its window ends. Raises TypeError if it is not a function.
        """
        return self._applied(window_function, output_type)

    def process(
        self, process_window_function: ProcessAllWindowFunction[T, R, Any], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Call a function like `apply`, with a context of window, times and state. It may have side outputs.

        State holds every record until its window ends. Raises TypeError if it is not a function.
        """
        return self._processed(process_window_function, output_type)

    def _result(
        self,
        contents: Contents,
        evaluation: Evaluation,
        function: str,
        output_type: TypeInformation | None,
        choose: ChooseOperator = window_operator,
    ) -> DataStream[Any]:
        result = super()._result(contents, evaluation, function, output_type, choose=choose).force_non_parallel()
        result._transformation.parallelism_fixed = "window_all processes all records of the stream in one subtask"
        return result


def _require_instance(value: Any, kind: type, example: str) -> None:
    """Raise TypeError unless `value` is an instance of `kind`, with a hint if it is a class."""
    if isinstance(value, type):
        raise TypeError(f"expected an instance, got the class {value.__name__}: create one with {value.__name__}(…)")
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"expected {article} {kind.__name__}, e.g. {example}, got {value!r}")
