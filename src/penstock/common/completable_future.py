"""Results of asynchronous calls."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

T = TypeVar("T")
WAKE_INTERVAL_S = 0.5
"""Interval at which a wait wakes up: the kernel may deliver Ctrl-C to another thread, which does not wake the main
thread, where Python handles it."""


class CompletableFuture(Generic[T]):
    """The result of an asynchronous request to a running job. Wraps `concurrent.futures.Future`."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def cancel(self) -> bool:
        """Cancel the future and return whether that succeeded. The request itself may still be executed."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether the future was canceled before it completed."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether the future has completed with a result or an error, or was canceled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.

        Raises the error of the call, or TimeoutError after `timeout` seconds (None: no limit).
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = WAKE_INTERVAL_S
            if deadline_s is not None:
                left_s = min(left_s, max(0.0, deadline_s - time.monotonic()))
            try:
                return self._future.result(left_s)
            except TimeoutError:
                # The call itself may have raised TimeoutError.
                if self._future.done():
                    return self._future.result()
                if deadline_s is not None and time.monotonic() >= deadline_s:
                    raise

    def exception(self) -> BaseException | None:
        """Return the error without waiting, or None if there is no error, or no outcome yet."""
        if not self._future.done():
            return None
        try:
            return self._future.exception()
        except CancelledError as cancelled:
            return cancelled

    def __str__(self) -> str:
        return str(self._future)
