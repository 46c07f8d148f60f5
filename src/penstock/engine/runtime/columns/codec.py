"""Columns on an edge: batches of Arrow's IPC format without schema, and columns in other forms where that pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy

from penstock.engine.runtime.chunks import EncodedColumns
from penstock.engine.runtime.columns.chunk import Columns, read_schema
from penstock.engine.runtime.columns.few_rows import FEW_ROWS, FewRows
from penstock.engine.runtime.columns.milliseconds import milliseconds
from penstock.engine.runtime.columns.narrow import narrow, widen
from penstock.engine.runtime.columns.sent_columns import forms_of, received_batch, sent_batch
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.worth import ROW_BYTE_NS
from penstock.engine.state.arrays.row_keys import Integers


def encoded(columns: Columns, byte_ns: float = ROW_BYTE_NS) -> EncodedColumns:
    """Return a chunk for an edge: of a slice only its own rows. `byte_ns`: the price of a byte on the exchange."""
    times, batch = columns.timestamps, columns.batch
    forms = forms_of(batch, byte_ns)
    narrowed = None if times is None else narrow(times, byte_ns)
    return EncodedColumns(
        len(columns),
        sent_batch(batch, forms),
        timestamps=times.tobytes() if times is not None and narrowed is None else None,
        forms=forms,
        narrow_timestamps=narrowed,
        kinds=None if columns.kinds is None else columns.kinds.tobytes(),
    )


def fields(columns: Columns, byte_ns: float) -> tuple[Any, ...]:
    """Return the fields of `encoded`: of few rows their lists, in the order of EncodedColumns."""
    if isinstance(columns, FewRows) and len(columns) <= FEW_ROWS:
        times, kinds = columns.timestamps, columns.kinds
        if times is None and kinds is None:
            return len(columns), columns.lists
        sent_times, sent_kinds = None if times is None else times.tobytes(), None if kinds is None else kinds.tobytes()
        return len(columns), columns.lists, sent_times, (), None, sent_kinds
    return msgspec.structs.astuple(encoded(columns, byte_ns))


def decoder(edge: EdgeInfo) -> Callable[[EncodedColumns], Columns]:
    """Return a function that decodes the columns of an edge."""
    assert edge.schema is not None
    schema, event_time_field = read_schema(edge.schema), edge.event_time_field

    def decode(columns: EncodedColumns) -> Columns:
        kinds = None if columns.kinds is None else numpy.frombuffer(columns.kinds, numpy.uint8)
        if type(columns.batch) is list:
            few = FewRows(schema, columns.batch, None, kinds)
            few.timestamps = _timestamps(columns) if event_time_field is None else few.times_of(event_time_field)
            return few
        assert isinstance(columns.batch, bytes)
        batch = received_batch(columns.batch, columns.forms, schema, len(columns))
        times = _timestamps(columns) if event_time_field is None else milliseconds(batch.column(event_time_field))
        return Columns(batch, times, kinds)

    return decode


def _timestamps(columns: EncodedColumns) -> Integers | None:
    if columns.narrow_timestamps is not None:
        times: Integers = widen(columns.narrow_timestamps, numpy.int64, len(columns))
        return times
    return None if columns.timestamps is None else numpy.frombuffer(columns.timestamps, numpy.int64)
