"""Cuts batches at any row: what operators on columns compute must not depend on it."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import ClassVar

from penstock.common.columns.record_columns import RecordColumns
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator

_LIKELIHOODS = (0.0, 0.2, 1.0)


class CutOperator(Operator):
    """Passes on each batch in parts. How likely a cut is at a row differs from batch to batch, and by `seed`."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, columns: RecordColumns, seed: int) -> None:
        super().__init__("Cut")
        self.columns_received = self.columns_given = columns
        self._random = Random(seed)
        self._parts: deque[Columns] = deque()

    def process(self, chunk: Columns) -> bool:
        likelihood = self._random.choice(_LIKELIHOODS)
        start = 0
        for stop in range(1, len(chunk) + 1):
            if stop == len(chunk) or self._random.random() < likelihood:
                self._parts.append(chunk.part(start, stop))
                start = stop
        return self.resume()

    def resume(self) -> bool:
        may_continue = True
        while self._parts and may_continue:
            may_continue = self.output.emit(self._parts.popleft())
        self.paused = bool(self._parts)
        return may_continue
