"""Functions that wait for something outside, many records at a time. Source: Flink docs, "Asynchronous I/O"."""

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
    """Results that have to be waited for."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The results for `value`. What it raises fails the job, unless a retry strategy says to try again."""

    def timeout(self, value: IN) -> list[OUT]:
        """The results for a record that took too long. Raises TimeoutError unless overridden."""
        raise TimeoutError(f"the asynchronous call for {value!r:.200} has timed out")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Which outcomes are to be tried again."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Tells whether results are to be tried again; None: no results are."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Tells whether an exception is to be tried again; None: no exception is."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Whether and when a call is tried again. One strategy serves many calls at once: it keeps no count itself."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether there may be another try; `current_attempts` counts from 1 before the first retry."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Milliseconds to wait before the next try."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Which outcomes are to be tried again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never try again."""
        from penstock.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> AsyncRetryStrategy[OUT]:
        """Try again up to `max_attempts` times, always after the same time. Raises ValueError unless both are > 0."""
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
        """Try again up to `max_attempts` times, after `initial_delay` ms, then `multiplier` times as long each time.

        No wait is longer than `max_retry_delay` ms. Raises ValueError unless all four are > 0.
        """
        from penstock.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


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
