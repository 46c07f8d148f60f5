"""The source of generated programs: splits that follow a script, with pauses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source, SplitEnumerator
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator, SharedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.hosts.simulator.programs import Record, SplitScript


class ScriptSplit(msgspec.Struct, frozen=True):
    """A split with a position."""

    split_id: str
    index: int
    position: int = 0


class ScriptedSource(Source[Record]):
    """Plays scripts. `shared`: splits are assigned on request, else each belongs to a subtask."""

    def __init__(
        self,
        scripts: Sequence[SplitScript],
        *,
        shared: bool = False,
        interleaved: bool = False,
        chunk_records_max: int = 4,
        timed: bool = True,
    ) -> None:
        self.scripts = {script.split_id: script for script in scripts}
        self.shared = shared
        self.interleaved = interleaved
        self.chunk_records_max = chunk_records_max
        self.timed = timed

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        splits = [ScriptSplit(script.split_id, script.index) for script in self.scripts.values()]
        if not self.shared:
            return FixedSplitEnumerator(context, splits)
        return _Shared(context, splits)

    def restore_enumerator(self, context: EnumeratorContext, state: list[ScriptSplit]) -> SplitEnumerator:
        if not self.shared:
            return FixedSplitEnumerator(context, state)
        return _Shared(context, state, restored=True)

    def create_reader(self, context: ReaderContext) -> SplitReader[Record]:
        return _ScriptReader(context, self)


class _Shared(SharedSplitEnumerator):
    """Finds its splits by a call that takes a while, unless it is restored."""

    def __init__(self, context: EnumeratorContext, splits: list[ScriptSplit], restored: bool = False) -> None:
        super().__init__(context, more_to_come=False, restored=restored)
        self._splits = splits
        if restored:
            self.add_splits(splits)
        self._restored = restored

    def start(self) -> None:
        if not self._restored:
            self._context.call_async(lambda: self._splits, self._found)

    def _found(self, splits: list[ScriptSplit] | None, error: Exception | None) -> None:
        self.add_splits(splits or [])

    def snapshot_state(self) -> list[Any]:
        return self.pending()


class _ScriptReader(SplitReader[Record]):
    def __init__(self, context: ReaderContext, source: ScriptedSource) -> None:
        super().__init__(context)
        self.interleaved = source.interleaved
        self._source = source
        self._until_ms: dict[tuple[str, int], int] = {}
        self._closed = False

    def add_splits(self, splits: Sequence[Any]) -> None:
        assert not self._closed, "splits were added to a closed reader"
        super().add_splits(splits)

    def read(self, split: ScriptSplit, max_records: int) -> Chunk | Nothing:
        assert not self._closed, "a closed reader was polled"
        script = self._source.scripts[split.split_id]
        pauses = dict(script.pauses)
        where = (split.split_id, split.position)
        if split.position in pauses:
            # The pause starts with the first poll at this position; polls during it return when to retry.
            until_ms = self._until_ms.setdefault(where, self.context.now_ms() + pauses[split.position])
            if self.context.now_ms() < until_ms:
                return Nothing(until_ms)
        most = min(max_records, self._source.chunk_records_max)
        end = min([split.position + most, *(at for at in pauses if at > split.position), len(script.records)])
        records = script.records[split.position : end]
        position = ScriptSplit(split.split_id, split.index, end) if end < len(script.records) else None
        timestamps = [timestamp for _, timestamp in records] if self._source.timed else None
        return Chunk([record for record, _ in records], position, timestamps)

    def close(self) -> None:
        assert not self._closed, "a reader was closed twice"
        self._closed = True
