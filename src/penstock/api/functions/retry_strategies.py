"""When an asynchronous call is tried again. Source: Flink docs, "Asynchronous I/O", Retry Support."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

OUT = TypeVar("OUT")


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
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None = None,
        exception_predicate: Callable[[Exception], bool] | None = None,
    ) -> AsyncRetryStrategy[OUT]:
        """Try again up to `max_attempts` times, always after the same time. Raises ValueError unless both are > 0."""
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
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT], Generic[OUT]):
    """Two functions that tell which outcomes are tried again."""

    def __init__(
        self,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Tells whether results are tried again."""
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Tells whether an exception is tried again."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """Nothing is tried again."""

    def can_retry(self, current_attempts: int) -> bool:
        """Never."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """-1: there is no next try."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """No outcome is tried again."""
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """A number of tries, always the same time apart. Raises ValueError unless both are above 0."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._max_attempts = _positive("max_attempts", max_attempts)
        self._backoff_time_millis = _positive("backoff_time_millis", backoff_time_millis)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """As long as there were no more tries than allowed."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Always the same."""
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Which outcomes are tried again."""
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """A number of tries, ever longer apart. Raises ValueError unless all figures are above 0."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> None:
        self._max_attempts = _positive("max_attempts", max_attempts)
        self._initial_delay = _positive("initial_delay", initial_delay)
        self._max_retry_delay = _positive("max_retry_delay", max_retry_delay)
        self._multiplier = _positive("multiplier", multiplier)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """As long as there were no more tries than allowed."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """The first wait, times the multiplier for each try after the first; at most the longest wait allowed."""
        # From the number of tries alone: calls that are under way at once must not lengthen each other's waits.
        wait: float = self._initial_delay
        for _ in range(1, current_attempts):
            wait *= self._multiplier
            if self._multiplier >= 1 and wait >= self._max_retry_delay:
                break
        return int(min(wait, self._max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Which outcomes are tried again."""
        return self._predicate


N = TypeVar("N", int, float)


def _positive(name: str, value: N) -> N:
    if value <= 0:
        raise ValueError(f"{name} must be above 0, got {value!r}")
    return value


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()
