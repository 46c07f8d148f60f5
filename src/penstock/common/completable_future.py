"""Results of asynchronous calls."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """The result of an asynchronous request to a running job. Wraps `concurrent.futures.Future`."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def cancel(self) -> bool:
        """Cancel the future and return whether that succeeded. The request itself may still be executed."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether the future was cancelled before it completed."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether the future has completed with a result or an error, or was cancelled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.

        Raises the error of the call, or TimeoutError after `timeout` seconds (None: no limit).
        """
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """Return the error; None if there is none, or not yet. Does not wait."""
        if not self._future.done():
            return None
        try:
            return self._future.exception()
        except CancelledError as cancelled:
            return cancelled

    def __str__(self) -> str:
        return str(self._future)
