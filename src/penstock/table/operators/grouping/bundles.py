"""Mini-batch: rows wait until their bundle ends, by size, watermark, barrier or the end of the input.

Source: Flink's AbstractMapBundleOperator, table.exec.mini-batch.size.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.api.timers import TimeDomain
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.engine.runtime.operators.keyed import FREED_ENTRIES
from penstock.table.operators.gathered_columns import emit_gathered
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class Bundle:
    """The rows of a bundle that has not ended. `size`: with so many rows it ends."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._parts: list[Columns] = []
        self._rows = 0

    def add(self, chunk: Columns) -> Iterator[Columns]:
        """Add rows. Yield each bundle that ends with one of them."""
        start = 0
        while len(chunk) - start >= self._size - self._rows:
            stop = start + self._size - self._rows
            self._append(chunk.part(start, stop))
            start = stop
            yield from self.end()
        if start < len(chunk):
            self._append(chunk.part(start))

    def end(self) -> Iterator[Columns]:
        """Yield the rows of the bundle, if there are any."""
        if self._parts:
            parts, self._parts, self._rows = self._parts, [], 0
            yield joined(parts)

    def _append(self, part: Columns) -> None:
        self._parts.append(part)
        self._rows += len(part)


class BundledOperator(KeyedTableOperator, GatheringOperator):
    """Base of keyed operators on bundles. Subclasses set `bundle_size` and define `end_bundle`."""

    bundle_size: int

    @abstractmethod
    def end_bundle(self, rows: Columns) -> Columns | None:
        """Return what a bundle gives."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._bundle = Bundle(self.bundle_size)
        self._given: list[Columns] = []

    def process(self, chunk: Columns) -> bool:
        return self.do(self._ended(self._bundle.add(chunk)), None)

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        """End the bundle with a watermark, which is emitted behind its rows."""
        return self._ended(self._bundle.end())

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return True

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for _ in self._ended(self._bundle.end()):
            self._emit_results()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def finish(self) -> bool:
        return self.do(self._ended(self._bundle.end()), None)

    def _ended(self, bundles: Iterator[Columns]) -> Iterator[None]:
        for rows in bundles:
            try:
                given = self.end_bundle(rows)
            except RAISED as error:
                raise self.context.user_error(error, "aggregate", ShownBatch(rows.batch)) from error
            self.end_chunk()
            if given is not None:
                self._given.append(given)
                yield

    def _emit_results(self) -> bool:
        return emit_gathered(self.output, self._given)
