"""Results that an operator gathers between two pauses of its work, and emits as one chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.runtime.columns.chunk import Columns, joined

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output


def emit_gathered(output: Output, gathered: list[Columns]) -> bool:
    """Emit chunks as one, and empty the list. False: the caller should stop for now."""
    if not gathered:
        return True
    whole = joined(gathered)
    gathered.clear()
    return output.emit(whole)
