"""Asynchronous functions, with many calls in flight. Source: Flink docs, "Asynchronous I/O"."""

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
    """Computes results asynchronously."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Return the results for `value`. An exception fails the job unless the retry strategy retries the call."""

    def timeout(self, value: IN) -> list[OUT]:
        """Return the results for a record whose call timed out. The default raises TimeoutError."""
        raise TimeoutError(f"the asynchronous call for {value!r:.200} timed out")


class AsyncFunctionDescriptor:
    """An asynchronous function with its execution settings."""

    class OutputMode(enum.Enum):
        """Whether results are emitted in the order of their records."""

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
