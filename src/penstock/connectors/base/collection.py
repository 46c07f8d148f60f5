"""A source over a list that the program holds in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.values.copies import independent_copies
from penstock.connectors.base.ranges import RangeSplit, contiguous
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader

T = TypeVar("T")


class CollectionSource(Source[T]):
    """Emit each of `values` once: in order at parallelism 1, else subtask i emits the i-th contiguous part in order.

    The values are pickled once, with the source; splits and positions are index ranges. The values are copied at
    construction, so later changes of the list or its items have no effect, as in PyFlink.
    """

    def __init__(self, values: Iterable[T], type_info: Any = None) -> None:
        """`type_info`: TypeInformation of the values, or None if the program declares none."""
        self._values = independent_copies(list(values))
        self._type_info = type_info

    def __copy__(self) -> CollectionSource[T]:
        # The source owns its records, which may be millions.
        return self

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create one split per subtask."""
        return FixedSplitEnumerator(context, contiguous(0, len(self._values), context.parallelism))

    def restore_enumerator(self, context: EnumeratorContext, state: list[RangeSplit]) -> FixedSplitEnumerator:
        """Restore the splits that were not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[T]:
        """Create a reader of the values."""
        return _CollectionReader(context, self._values)

    def get_produced_type(self) -> Any:
        """Return the `type_info` of the constructor."""
        return self._type_info


class _CollectionReader(SplitReader[T]):
    def __init__(self, context: ReaderContext, values: list[T]) -> None:
        super().__init__(context)
        self._values = values

    def read(self, split: RangeSplit, max_records: int) -> Chunk:
        numbers, position = split.take(max_records)
        # A list may contain one object several times, and is read again after a failure: emit fresh copies each time.
        return Chunk(independent_copies(self._values[numbers.start : numbers.stop]), position)
