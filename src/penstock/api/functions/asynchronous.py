"""Asynchronous functions, with many calls in flight, and their retries. Source: Flink docs, "Asynchronous I/O"."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.api.functions.function import Function
from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.types.whole_numbers import as_int

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides which outcomes are retried."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Return a predicate that is true for results to retry, or None to retry no result."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return a predicate that is true for exceptions to retry, or None to retry no exception."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Decides whether and when a call is retried. One strategy serves many concurrent calls: it must have no state."""

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
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: TimeLength,
        result_predicate: Callable[[list[OUT]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> AsyncRetryStrategy[OUT]:
        """Return a strategy: up to `max_attempts` retries with a fixed delay (ms).

        Raises ValueError unless both are above 0.
        """
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: TimeLength,
        max_retry_delay: TimeLength,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> AsyncRetryStrategy[OUT]:
        """Return a strategy: up to `max_attempts` retries, after `initial_delay` ms, then `multiplier` times as long.

        The delay is at most `max_retry_delay` ms. Raises ValueError unless all four are above 0.
        """
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
            result_predicate=result_predicate,
            exception_predicate=exception_predicate,
        )


class RetryPredicate(AsyncRetryPredicate[OUT], Generic[OUT]):
    """A pair of predicates for outcomes to retry."""

    def __init__(
        self,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Return the predicate of results to retry."""
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return the predicate of exceptions to retry."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """Never retries."""

    def can_retry(self, current_attempts: int) -> bool:
        """Return False."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return -1: there is no next attempt."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return predicates that match nothing."""
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """Retries a number of times with a fixed delay. Raises ValueError unless both are above 0."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: TimeLength,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._max_attempts = _attempts(max_attempts)
        self._backoff_time_millis = _delay_ms("backoff_time_millis", backoff_time_millis)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Return whether the number of attempts is within the limit."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the fixed delay."""
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicate of outcomes to retry."""
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """Retries a number of times with growing delays. Raises ValueError unless all numbers are above 0."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: TimeLength,
        max_retry_delay: TimeLength,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._max_attempts = _attempts(max_attempts)
        self._initial_delay = _delay_ms("initial_delay", initial_delay)
        self._max_retry_delay = _delay_ms("max_retry_delay", max_retry_delay)
        _check_positive("multiplier", multiplier)
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Return whether the number of attempts is within the limit."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the initial delay, multiplied once per attempt after the first, up to the maximum delay."""
        # Computed from the number of attempts alone: concurrent calls must not lengthen each other's delays.
        wait: float = self._initial_delay
        for _ in range(1, current_attempts):
            wait *= self._multiplier
            if self._multiplier >= 1 and wait >= self._max_retry_delay:
                break
        return int(min(wait, self._max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicate of outcomes to retry."""
        return self._predicate


def _attempts(max_attempts: Any) -> int:
    number = as_int(max_attempts)
    if number is None:
        raise TypeError(f"max_attempts must be a number, got {max_attempts!r}")
    _check_positive("max_attempts", number)
    return number


def _delay_ms(name: str, delay: TimeLength) -> int:
    delay_ms = to_milliseconds(delay)
    _check_positive(name, delay_ms)
    return delay_ms


def _check_positive(name: str, value: float) -> None:
    if value <= 0:
        raise ValueError(f"{name} must be above 0, got {value!r}")


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()


class AsyncFunction(Function, Generic[IN, OUT]):
    """Computes results asynchronously. Many calls of one subtask run at the same time, on one event loop."""

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
