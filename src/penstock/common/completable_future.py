"""Results of asynchronous calls."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

T = TypeVar("T")
WAKES_S = 0.5
"""How often a wait for a job wakes up: a Ctrl-C that the kernel gives to another thread does not wake the main one,
where Python handles it."""


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
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = WAKES_S if deadline_s is None else min(WAKES_S, max(0.0, deadline_s - time.monotonic()))
            try:
                return self._future.result(left_s)
            except TimeoutError:
                # The call itself may have raised it.
                if self._future.done():
                    return self._future.result()
                if deadline_s is not None and time.monotonic() >= deadline_s:
                    raise

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
