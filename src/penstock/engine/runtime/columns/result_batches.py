"""Results of windows that are Python's objects, emitted as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.gathering import GatheringOperator

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


def emit_as_columns(operator: GatheringOperator, columns: RecordColumns) -> bool:
    """Emit the results that an operator has gathered. Raises UserFunctionError for one of another type."""
    if not operator.results:
        return True
    results, times = operator.results, operator.result_times
    operator.results, operator.result_times = [], []
    try:
        batch = columns.batch(columns.of(results))
    except RAISED as error:
        raise operator.context.user_error(error, "what it emits as its declared type", results[0]) from error
    return operator.output.emit(Columns(batch, numpy.array(times, numpy.int64)))
