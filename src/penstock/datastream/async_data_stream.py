"""AsyncDataStream: asynchronous functions on a stream. Source: Flink docs, "Asynchronous I/O"."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from penstock.api.functions.asynchronous import AsyncFunction
from penstock.api.functions.retry_strategies import NO_RETRY_STRATEGY, AsyncRetryStrategy
from penstock.common.doors import pyflink_names
from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.arguments import check_methods, checked_count, class_given, output_type_of
from penstock.datastream.data_stream import DataStream
from penstock.engine.runtime.operators.async_wait import AsyncWaitOperator
from penstock.engine.runtime.operators.function import UserFunction

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncDataStream:
    """Calls an AsyncFunction for each record of a stream, many at a time, and emits what the calls return.

    For all methods: `timeout` (milliseconds, or a length of time; 0: no limit) is for each record, over all retries;
    when it is over, `AsyncFunction.timeout` says what becomes of the record. At most `capacity` records are in flight
    in each subtask: with more, the stream waits. What is in flight is part of each checkpoint, and is called for again
    after a restore. Raise TypeError for what is no stream or AsyncFunction, ValueError for a capacity below 1 or a
    negative timeout.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: TimeLength,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results as they come. They overtake no watermark, and no watermark overtakes them."""
        return _waited(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, ordered=False)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: TimeLength,
        async_retry_strategy: AsyncRetryStrategy[OUT],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results as they come, and call again when the strategy says so."""
        return _waited(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=False)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: TimeLength,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order of the records."""
        return _waited(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, ordered=True)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: TimeLength,
        async_retry_strategy: AsyncRetryStrategy[OUT],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order of the records, and call again when the strategy says so."""
        return _waited(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=True)


def _waited(
    stream: DataStream[Any],
    function: Any,
    timeout: TimeLength,
    retries: Any,
    capacity: int,
    output_type: TypeInformation | None,
    ordered: bool,
) -> DataStream[Any]:
    if not isinstance(stream, DataStream):
        raise TypeError(f"expected a DataStream, got {stream!r}")
    if isinstance(function, type) and issubclass(function, AsyncFunction):
        raise class_given(function)
    if not isinstance(function, AsyncFunction):
        raise TypeError(f"expected an instance of an AsyncFunction, got {function!r}")
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise TypeError(f"{type(function).__name__}.async_invoke must be declared with `async def`")
    check_methods(function, AsyncFunction)
    if not isinstance(retries, AsyncRetryStrategy):
        raise TypeError(f"expected a strategy such as AsyncRetryStrategy.fixed_delay(3, 100), got {retries!r}")
    timeout_ms = to_milliseconds(timeout)
    if timeout_ms < 0:
        raise ValueError(f"a timeout can't be negative, got {timeout_ms} ms")
    capacity = checked_count("the capacity", capacity, 1)
    called = UserFunction.of_object(function, "async_invoke")
    name = "Async Wait"
    operator = AsyncWaitOperator(name, called, timeout_ms, capacity, ordered, retries)
    declared = output_type_of(function, "async_invoke", output_type, elements=True)
    return stream._operator(name, operator, declared)


pyflink_names.answer(__name__)
