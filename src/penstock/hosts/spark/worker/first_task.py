"""A task that does nothing: before Spark can run it, it starts the process from which workers are forked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def no_rows(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Read the input, and return no rows."""
    for _ in batches:
        pass
    yield from ()
