"""Results that are still to come."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """The result of something asked of a running job. A thin cover over `concurrent.futures.Future`."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def cancel(self) -> bool:
        """Give up waiting; whether that succeeded. What was asked for may happen all the same."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether it was cancelled before there was a result."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether it is over: a result, an error, or cancelled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result. Raises what went wrong, or TimeoutError after `timeout` seconds if given."""
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """What went wrong; None if nothing did, or not yet. Does not wait."""
        if not self._future.done():
            return None
        try:
            return self._future.exception()
        except CancelledError as cancelled:
            return cancelled

    def __str__(self) -> str:
        return str(self._future)
