"""The transport of a slot: how its host gets batches from Spark and hands rows to it.

There are two: `pipes.py` (the slot's thread owns the worker's pipes) and `iterators.py` (PySpark's own). A host knows
only what is here. `read`, `wait`, `write` and `ended` belong to the slot's thread, `ring` may be called by any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa


class Transport(Protocol):
    """Batches in, rows out. A batch has the columns of `rows.py`, as they are or wrapped in one struct column."""

    @property
    def ended(self) -> bool:
        """Whether the input is over: Spark has ended the query, or the connection to the JVM is lost."""
        ...

    def read(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        """The next batch; None if `ring` was called, the input ended, or nothing came within `timeout_ns` nanoseconds.

        None waits without limit, 0 or less does not wait. Reads little ahead: what is not read holds back its senders.
        """
        ...

    def wait(self, timeout_ns: int | None) -> None:
        """Wait as `read` does, and read nothing: until `ring` was called, the input is lost, or the time is over."""
        ...

    def write(self, rows: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        """Write rows, (target slot, buffer) each; at least one. Blocks while their reader has no room.

        The stage yields each batch that this gives, and the rows are written when it has been exhausted. Raises OSError
        when there is no reader any more.
        """
        ...

    def ring(self) -> None:
        """Make the `read` or `wait` that waits now, or else the next one, return. Any number of calls count as one."""
        ...
