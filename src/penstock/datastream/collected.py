"""The result of execute_and_collect: an iterator over a stream's values on the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from penstock.engine.jobmaster.results.result_sinks import CollectedResults

T = TypeVar("T")


class CloseableIterator(Generic[T]):
    """Iterates over the values. Closing it cancels a running job. The iteration raises the job's error."""

    def __init__(self, results: CollectedResults, client: Any, convert: Callable[[Any], T] | None = None) -> None:
        self._values: Iterator[T] = iter(results) if convert is None else map(convert, results)
        self._client = client
        self._exhausted = False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return next(self._values)
        except StopIteration:
            if not self._exhausted:
                self._exhausted = True
                # The last value arrives before the job's end. Wait until its files are deleted and its slots are free.
                self._client.get_job_execution_result().result()
            raise
        except KeyboardInterrupt as interrupt:
            if not self._exhausted:
                self._exhausted = True
                self._client.cancel_for(interrupt)
            raise
        except BaseException:
            self._exhausted = True
            raise

    def next(self) -> T:
        """Wait for the next value and return it. Raises StopIteration when the job has ended."""
        return self.__next__()

    @property
    def is_closed(self) -> bool:
        """Whether all values have been read, or the iterator has been closed."""
        return self._exhausted

    def get_job_client(self) -> Any:
        """Return the JobClient of the running job."""
        return self._client

    def close(self) -> None:
        """Stop iterating, and cancel the job if it is still running."""
        if not self._exhausted:
            self._exhausted = True
            self._client.close_results()

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
