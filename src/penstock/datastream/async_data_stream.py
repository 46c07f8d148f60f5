"""AsyncDataStream: asynchronous functions on a stream. Source: Flink docs, "Asynchronous I/O"."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from penstock.api.functions.asynchronous import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
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
    """Calls an AsyncFunction for each record of a stream, many at the same time, and emits the results.

    For all methods: `timeout` (milliseconds, or a duration; 0: no limit) applies to each record, including retries.
    After it, the result of `AsyncFunction.timeout` is emitted. At most `capacity` records are in flight in each
    subtask; then the stream waits. Records in flight are part of checkpoints, and called again after a restore. The
    methods raise TypeError if the arguments are not a stream and an AsyncFunction, ValueError for a capacity below 1 or
    a negative timeout.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: TimeLength,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results as they arrive. They do not overtake watermarks, and watermarks do not overtake them."""
        return _waited(
            stream=data_stream,
            function=async_function,
            timeout=timeout,
            retries=NO_RETRY_STRATEGY,
            capacity=capacity,
            output_type=output_type,
            ordered=False,
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: TimeLength,
        async_retry_strategy: AsyncRetryStrategy[OUT],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results as they arrive, and repeat calls as the strategy decides."""
        return _waited(
            stream=data_stream,
            function=async_function,
            timeout=timeout,
            retries=async_retry_strategy,
            capacity=capacity,
            output_type=output_type,
            ordered=False,
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: TimeLength,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order of the records."""
        return _waited(
            stream=data_stream,
            function=async_function,
            timeout=timeout,
            retries=NO_RETRY_STRATEGY,
            capacity=capacity,
            output_type=output_type,
            ordered=True,
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[IN],
        async_function: AsyncFunction[IN, OUT],
        timeout: TimeLength,
        async_retry_strategy: AsyncRetryStrategy[OUT],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order of the records, and repeat calls as the strategy decides."""
        return _waited(
            stream=data_stream,
            function=async_function,
            timeout=timeout,
            retries=async_retry_strategy,
            capacity=capacity,
            output_type=output_type,
            ordered=True,
        )


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
        raise ValueError(f"the timeout must be 0 ms or more, got {timeout_ms} ms")
    capacity = checked_count("the capacity", capacity, 1)
    called = UserFunction.of_object(function, "async_invoke")
    name = "Async Wait"
    operator = AsyncWaitOperator(
        name=name, function=called, timeout_ms=timeout_ms, capacity=capacity, ordered=ordered, retries=retries
    )
    declared = output_type_of(function, "async_invoke", output_type, elements=True)
    return stream._operator(name, operator, declared)


pyflink_names.resolve_missing_names(__name__)
