"""Functions that wait for something outside, many records at a time. Source: Flink docs, "Asynchronous I/O"."""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import Any, Generic, TypeVar

from penstock.api.functions.function import Function
from penstock.api.functions.retry_strategies import AsyncRetryStrategy
from penstock.common.time import TimeLength

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """Results that have to be waited for."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The results for `value`. What it raises fails the job, unless a retry strategy says to try again."""

    def timeout(self, value: IN) -> list[OUT]:
        """The results for a record that took too long. Raises TimeoutError unless overridden."""
        raise TimeoutError(f"the asynchronous call for {value!r:.200} has timed out")


class AsyncFunctionDescriptor:
    """An asynchronous function with everything said about its execution."""

    class OutputMode(enum.Enum):
        """Whether results keep the order of the records they belong to."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: TimeLength,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: AsyncFunctionDescriptor.OutputMode,
    ) -> None:
        self.async_function = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
