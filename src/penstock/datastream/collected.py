"""What execute_and_collect gives: the values of a stream on the driver, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from penstock.jobmaster.results.result_sinks import CollectedResults

T = TypeVar("T")


class CloseableIterator(Generic[T]):
    """Iterates over the values; closing it cancels a job that is still running. A failure of the job is raised here."""

    def __init__(self, taker: CollectedResults, client: Any) -> None:
        self._values: Iterator[T] = iter(taker)
        self._client = client
        self._exhausted = False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            return next(self._values)
        except StopIteration:
            self._exhausted = True
            raise
        except KeyboardInterrupt:
            self.close()
            raise
        except BaseException:
            self._exhausted = True
            raise

    def next(self) -> T:
        """The next value; waits for it. Raises StopIteration when the job has ended."""
        return self.__next__()

    def get_job_client(self) -> Any:
        """The JobClient of the running job."""
        return self._client

    def close(self) -> None:
        """Stop taking values; cancel the job if it has not ended."""
        if not self._exhausted:
            self._exhausted = True
            self._client.cancel().result()

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
