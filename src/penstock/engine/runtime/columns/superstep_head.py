"""The head of a structured iteration whose workset is columns: it travels on the feedback edges as batches of Arrow."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.api.output_tag import OutputTag
from penstock.common.columns.record_columns import RecordColumns
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.operators.superstep_head import RESULT, SuperstepHead, SuperstepRules


class ColumnSuperstepHead(SuperstepHead):
    """Emits the columns of both inputs, with the number of the superstep as their timestamps."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, rules: SuperstepRules, columns: RecordColumns) -> None:
        super().__init__(name, rules)
        self.columns_received = self.columns_given = columns

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        return self.columns_given if tag is None or tag == RESULT else None
