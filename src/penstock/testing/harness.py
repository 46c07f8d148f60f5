"""Test harnesses: run one operator of a program step by step, without Spark.

A test pushes values, advances event time and processing time, and reads outputs, timers and state. The operator is the
same as in a job. After each step the harness checks for values changed in place: see `ChangedValueError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, NamedTuple, Self

from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import StateDescriptor
from penstock.api.timers import TimeDomain
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import Row
from penstock.datastream.data_stream import DataStream
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.engine.plan.call_capture import without_capture
from penstock.engine.plan.transformations import (
    OperatorTransformation,
    PartitionTransformation,
    SourceTransformation,
    Transformation,
)
from penstock.engine.runtime.chunks import Chunk, Rows
from penstock.engine.runtime.network.partitioners import Partitioner
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.async_calls import AsyncCalls, CallOutcome, Calls, ended_by
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.runtime.task.wiring import typed_output
from penstock.engine.state.key_groups import KeyGroups
from penstock.testing.harness_watch import Watch, WatchedBackend

_STEPS_MAX = 1_000_000


class Timer(NamedTuple):
    """A registered timer. `window` is set for timers of a window operator, else None."""

    timestamp: int
    key: Any
    domain: TimeDomain = TimeDomain.EVENT_TIME
    window: Any = None


class OperatorHarness:
    """Runs the single operator that `program` adds to a stream, as one subtask.

    `program` is written as in a job: `OperatorHarness(lambda stream: stream.key_by(f).window(w).reduce(r))`. Processing
    time is `now_ms` until `advance_ms`. Raises ValueError if the program is not exactly one operator. Every step may
    raise ChangedValueError, UserFunctionError if the user's function fails, or RuntimeError if it does not end. Close
    the harness, or use it in a `with` statement. Calls of an asynchronous function run to their ends in the step that
    makes them; retries wait for `advance_ms`.
    """

    _input_count = 1

    def __init__(
        self,
        program: Callable[..., DataStream[Any]],
        *,
        now_ms: int = 0,
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        job_parameters: dict[str, str] | None = None,
    ) -> None:
        transformation = _operator_of(program, self._input_count)
        self.operator: Operator = transformation.operator
        self.operator.name = transformation.name
        self.now_ms = now_ms
        self.counters = OperatorCounters(transformation.name)
        self._watermark = MIN_TIMESTAMP
        self._watch = Watch(transformation.name)
        given = self.operator.given_columns(None)
        self._recorder = _Recorder(None if given is None else given.reader())
        # One result per step, so that each value is compared with its state at the time of emission.
        self._budget = Budget(lambda: 0, step_ns=0)
        self._budget.chunk_records = 1
        if isinstance(self.operator, KeyedOperator):
            self.operator.backend_type = partial(WatchedBackend, self._watch)
        self._event_loop: HarnessEventLoop | None = None
        self._async_calls = AsyncCalls(self._open_event_loop)
        info = SubtaskInfo(
            job_id="test",
            vertex_id=0,
            task_name=transformation.name,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            job_parameters=job_parameters or {},
        )
        groups, calls = KeyGroups(max_parallelism), self._async_calls
        task = TaskContext(info, lambda: self.now_ms, self._budget, groups, async_calls=calls)
        context = OperatorContext(task, transformation.name, uid=transformation.uid or "", counters=self.counters)
        self._selecting = [_keyed_partitioner(input) for input in transformation.inputs]
        declared = transformation.output_type if given is None else None
        self.operator.setup(context, typed_output(self._recorder, context, declared, ()))
        self.operator.open()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Inputs.

    def push(self, value: Any, timestamp: int | None = None) -> None:
        """Process a record with event time `timestamp` (ms) or without."""
        self._check_key(0, value)
        chunk = _chunk_for(self.operator, value, timestamp)
        self._do(lambda: self.operator.process(chunk))

    def watermark(self, timestamp: int) -> None:
        """Advance event time to `timestamp` (ms). Raises ValueError if it is lower than before."""
        if timestamp < self._watermark:
            raise ValueError(f"event time can't go back from {self._watermark} to {timestamp}")
        self._watermark = timestamp
        self._do(lambda: self.operator.watermark(timestamp))

    def advance_ms(self, ms: int) -> None:
        """Advance processing time by `ms` milliseconds; timers fire on the way, each at its time.

        Raises ValueError if `ms` is negative.
        """
        if ms < 0:
            raise ValueError(f"processing time can't go back by {-ms} ms")
        until = self.now_ms + ms
        for _ in range(_STEPS_MAX):
            at = self.operator.wake_at_ms()
            if at is None or at > until:
                self.now_ms = until
                return
            self.now_ms = max(self.now_ms, at)
            now_ms = self.now_ms
            self._do(lambda: self.operator.processing_time(now_ms))  # noqa: B023 - called at once
        raise self._endless()

    def finish(self) -> None:
        """End the input: event time advances to its end, then retained output is emitted."""
        self.watermark(MAX_TIMESTAMP)
        self._do(self.operator.finish)

    def close(self) -> None:
        """Call the function's `close`. Idempotent."""
        if not self._closed:
            self._closed = True
            self.operator.close()

    # Results.

    def outputs(self) -> list[Any]:
        """Return all values emitted so far, in order."""
        return [value for value, _ in self._recorder.main]

    def outputs_with_timestamps(self) -> list[tuple[Any, int | None]]:
        """Return all values emitted so far with their timestamps (ms, or None)."""
        return list(self._recorder.main)

    def side_outputs(self, tag: OutputTag[Any]) -> list[Any]:
        """Return all values emitted to a side output so far, in order."""
        return [value for value, _ in self._recorder.sides.get(tag.tag_id, [])]

    def clear_outputs(self) -> None:
        """Clear all outputs, so that a test sees subsequent ones only."""
        self._recorder.main.clear()
        self._recorder.sides.clear()

    def watermarks(self) -> list[int]:
        """Return the watermarks forwarded so far."""
        return list(self._recorder.watermarks)

    def timers(self) -> list[Timer]:
        """Return the registered timers: those of event time, then those of processing time, each ordered by time."""
        timers = self._keyed("timers").timers
        return [
            Timer(timestamp, key, domain, namespace)
            for domain, queue in (
                (TimeDomain.EVENT_TIME, timers.event_time),
                (TimeDomain.PROCESSING_TIME, timers.processing_time),
            )
            for timestamp, key, namespace in queue
        ]

    def state(self, state: str | StateDescriptor, key: Any, window: Any = None) -> Any:
        """Return the content of a state for `key` (and `window`): a value, list, dict, or the aggregated result.

        None, [] or {} if it is empty. `state` is the descriptor or its name. Raises ValueError if the function has not
        requested a state of that name.
        """
        backend = self._keyed("state").backend
        assert isinstance(backend, WatchedBackend)
        name = state if isinstance(state, str) else state.get_name()
        declared = backend.declared.get(name)
        if declared is None:
            known = ", ".join(map(repr, backend.declared)) or "none"
            raise ValueError(f"'{self.operator.name}' has no state '{name}'; it has requested: {known}")
        return backend.read(declared, key, window, namespaced=window is not None)

    def _keyed(self, what: str) -> KeyedOperator:
        if not isinstance(self.operator, KeyedOperator):
            raise ValueError(f"'{self.operator.name}' has no {what}: its stream is not keyed")
        return self.operator

    def _check_key(self, index: int, value: Any) -> None:
        """Check the key, as a job does: there it selects the subtask before the operator receives the record."""
        partitioner = self._selecting[index]
        if partitioner is not None:
            try:
                partitioner.probe(value)
            except RAISED as error:
                raise self.operator.context.user_error(error, "key selector", value) from error

    def _do(self, call: Callable[[], bool]) -> None:
        self._watch.check()
        self._budget.begin_step()
        call()
        for _ in range(_STEPS_MAX):
            calls_ended = self._run_calls()
            if not self.operator.paused and not calls_ended:
                break
            self._budget.begin_step()
            if self.operator.paused:
                self.operator.resume()
            else:
                self.operator.processing_time(self.now_ms)
        else:
            raise self._endless()
        self._watch.check()

    def _open_event_loop(self) -> HarnessEventLoop:
        self._event_loop = HarnessEventLoop()
        return self._event_loop

    def _run_calls(self) -> bool:
        """Run the calls of an asynchronous function. Return whether there were any."""
        ended = self._event_loop.run() if self._event_loop is not None else []
        self._async_calls.ended(ended)
        return bool(ended)

    def _endless(self) -> RuntimeError:
        return RuntimeError(
            f"'{self.operator.name}' did not end after {_STEPS_MAX:,} results or timers, at {self.now_ms} ms of "
            f"processing time, watermark {self._watermark}: does each timer register the next, or a loop never end?"
        )


class OneInputHarness(OperatorHarness):
    """Runs a ProcessFunction, MapFunction, FlatMapFunction or FilterFunction on a non-keyed stream."""

    def __init__(self, function: Any, **settings: Any) -> None:
        method = _stream_method(function)
        super().__init__(lambda stream: getattr(stream, method)(function), **settings)


class KeyedOneInputHarness(OperatorHarness):
    """Runs a KeyedProcessFunction, or a function that maps, filters or reduces, on a stream keyed by `key_selector`."""

    def __init__(self, function: Any, key_selector: Any, **settings: Any) -> None:
        method = _stream_method(function)
        super().__init__(lambda stream: getattr(stream.key_by(key_selector), method)(function), **settings)


class TwoInputHarness(OperatorHarness):
    """Runs the single operator that `program` applies to two streams, as one subtask.

    `program` is written as in a job: `TwoInputHarness(lambda first, second: first.connect(second).process(function))`.
    Either stream may be broadcast. `push1` and `push2` push records; `watermark` is that of both streams. Otherwise
    like OperatorHarness.
    """

    _input_count = 2

    def push(self, value: Any, timestamp: int | None = None) -> None:
        """Raise TypeError, as the stream is ambiguous."""
        raise TypeError("this operator has two inputs: use push1 or push2")

    def push1(self, value: Any, timestamp: int | None = None) -> None:
        """Process a record of the first stream, with event time `timestamp` (ms) or without."""
        self._push(0, value, timestamp)

    def push2(self, value: Any, timestamp: int | None = None) -> None:
        """Process a record of the second stream, with event time `timestamp` (ms) or without."""
        self._push(1, value, timestamp)

    def watermark1(self, timestamp: int) -> None:
        """Advance event time of the first stream to `timestamp` (ms); that of the operator is the lower of the two."""
        self._do(lambda: self.operator.inputs()[0].watermark(timestamp))

    def watermark2(self, timestamp: int) -> None:
        """Advance event time of the second stream to `timestamp` (ms)."""
        self._do(lambda: self.operator.inputs()[1].watermark(timestamp))

    def watermark(self, timestamp: int) -> None:
        """Advance event time of both streams to `timestamp` (ms)."""
        self.watermark1(timestamp)
        self.watermark2(timestamp)

    def _push(self, index: int, value: Any, timestamp: int | None) -> None:
        input = self.operator.inputs()[index]
        self._check_key(index, value)
        chunk = _chunk_for(self.operator, value, timestamp, index)
        self._do(lambda: input.process(chunk))


class KeyedTwoInputHarness(TwoInputHarness):
    """Runs a KeyedCoProcessFunction, CoMapFunction or CoFlatMapFunction on two streams with keys."""

    def __init__(self, function: Any, key_selector1: Any, key_selector2: Any, **settings: Any) -> None:
        method = _two_streams_method(function)
        super().__init__(
            lambda first, second: getattr(first.connect(second).key_by(key_selector1, key_selector2), method)(function),
            **settings,
        )


class _Recorder:
    """The operator's output, recorded. `records`: returns the records of columns."""

    def __init__(self, records: Callable[[Any], list[Any]] | None) -> None:
        self._records = records
        self.main: list[tuple[Any, int | None]] = []
        self.sides: dict[str, list[tuple[Any, int | None]]] = {}
        self.watermarks: list[int] = []

    def emit(self, chunk: Any) -> bool:
        if self._records is not None:
            times = chunk.timestamps
            chunk = Rows(self._records(chunk.batch), None if times is None else times.tolist())
        _note(self.main, chunk)
        return True

    def emit_side(self, tag: OutputTag[Any], chunk: Rows) -> bool:
        _note(self.sides.setdefault(tag.tag_id, []), chunk)
        return True

    def watermark(self, timestamp: int) -> bool:
        self.watermarks.append(timestamp)
        return True

    def status(self, active: bool) -> bool:
        return True  # the harness has a single input, which is never idle


def _chunk_for(operator: Operator, value: Any, timestamp: int | None, index: int = 0) -> Chunk:
    """Return a chunk of one record, of the kind that input `index` of the operator takes."""
    times = None if timestamp is None else [timestamp]
    columns = operator.columns_received_by(index)
    if columns is None:
        return Rows([value], times)
    from penstock.engine.runtime.columns.conversions import as_columns

    return as_columns(Rows([value], times), columns)


def _note(notes: list[tuple[Any, int | None]], chunk: Rows) -> None:
    times: list[Any] = [None] * len(chunk) if chunk.timestamps is None else chunk.timestamps
    notes.extend(zip(chunk.values, times, strict=True))


def _stream_method(function: Any) -> str:
    for method in ("process_element", "flat_map", "map", "filter", "reduce"):
        if callable(getattr(function, method, None)):
            return "process" if method == "process_element" else method
    raise TypeError(
        f"expected an object of a Function class, got {function!r}. For a plain callable, or an operator with "
        "arguments, use OperatorHarness(lambda stream: stream.map(...))"
    )


def _two_streams_method(function: Any) -> str:
    for name, method in (("process_element1", "process"), ("map1", "map"), ("flat_map1", "flat_map")):
        if callable(getattr(function, name, None)):
            return method
    raise TypeError(f"expected a KeyedCoProcessFunction, CoMapFunction or CoFlatMapFunction, got {function!r}")


def _operator_of(program: Callable[..., DataStream[Any]], input_count: int) -> OperatorTransformation:
    environment = StreamExecutionEnvironment()
    inputs: list[DataStream[Row]] = [environment.from_collection([]) for _ in range(input_count)]
    # The functions run here and are not pickled: they may refer to objects of a test.
    with without_capture():
        result = program(*inputs)
    last: Transformation | None = getattr(result, "_transformation", None)
    if not isinstance(last, OperatorTransformation):
        raise ValueError(f"the program must return the stream after its operator, it returned {result!r}")
    before = [_unconverted(input) for input in last.inputs]
    if len(before) != input_count or not all(isinstance(input, SourceTransformation) for input in before):
        names = ", ".join(repr(input.name) for input in before)
        raise ValueError(
            f"the program must be one operator; before '{last.name}' it has {names}. Test these separately"
        )
    return last


def _keyed_partitioner(input: Transformation) -> Partitioner | None:
    return input.partitioner if isinstance(input, PartitionTransformation) and input.partitioner.keyed else None


def _unconverted(input: Transformation) -> Transformation:
    """Return what is before partitionings, conversions, and filters of an exchange."""
    while isinstance(input, PartitionTransformation) or (
        isinstance(input, OperatorTransformation)
        and (input.operator.converts_to is not None or input.operator.is_before_edge)
    ):
        (input,) = input.inputs
    return input


class HarnessEventLoop:
    """An `EventLoop` without a thread: `run` runs its calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._calls: dict[int, Coroutine[Any, Any, CallOutcome]] = {}

    def start(self, calls: Calls) -> None:
        """Store calls for the next `run`."""
        self._calls.update(calls)

    def cancel(self, ids: Iterable[int]) -> None:
        """Close calls that have not run."""
        for id in ids:
            if (call := self._calls.pop(id, None)) is not None:
                call.close()

    def close(self) -> None:
        """Close all calls and the loop."""
        self.cancel(list(self._calls))
        self._loop.close()

    def run(self) -> list[CallOutcome]:
        """Run all calls to their ends."""
        if not self._calls:
            return []
        calls, self._calls = self._calls, {}

        async def all_of_them() -> list[CallOutcome | BaseException]:
            return list(await asyncio.gather(*calls.values(), return_exceptions=True))

        ended = zip(calls, self._loop.run_until_complete(all_of_them()), strict=True)
        return [ended_by(id, one) if isinstance(one, BaseException) else one for id, one in ended]
