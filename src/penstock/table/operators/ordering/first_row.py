"""The first row of each key by arrival: the engine's operator, whose state is the keys alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.api.state.ttl import StateTtlConfig
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.deduplicate import ColumnDeduplicateOperator
from penstock.engine.runtime.operators.deduplicate import Kept
from penstock.table.operators.keyed.table_keys import selector_of
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator


class FirstRowOperator(ColumnDeduplicateOperator):
    """Emits the first row of each key. Each row of the input counts as one that is inserted."""

    def __init__(self, name: str, keys: Sequence[str], *, columns: TableColumns, ttl: StateTtlConfig | None) -> None:
        super().__init__(name, selector_of(keys), Kept(last=False), key_fields=keys, columns=columns, ttl=ttl)

    def on_rows(self) -> Operator | None:  # type: ignore[override]
        return None

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        return super().process(Columns(chunk.batch))
