"""Asynchronous functions, with many calls in flight. Source: Flink docs, "Asynchronous I/O"."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.common.time import TimeLength
from penstock.datastream.base_functions import Function

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


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides which outcomes are retried."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Return a predicate of results to retry, or None to retry none."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return a predicate of exceptions to retry, or None to retry none."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Decides whether and when a call is retried. One strategy serves many concurrent calls, so it has no counters."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether another attempt is allowed; `current_attempts` is 1 before the first retry."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the milliseconds to wait before the next attempt."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicate of outcomes to retry."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Return a strategy without retries."""
        from penstock.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> AsyncRetryStrategy[OUT]:
        """Retry up to `max_attempts` times with a fixed delay. Raises ValueError unless both are above 0."""
        from penstock.datastream.async_retry_strategies import FixedDelayRetryStrategy

        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> AsyncRetryStrategy[OUT]:
        """Retry up to `max_attempts` times, after `initial_delay` ms, multiplied by `multiplier` each time.

        The delay is at most `max_retry_delay` ms. Raises ValueError unless all four are above 0.
        """
        from penstock.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


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
