"""Columns on an edge: batches of Arrow's IPC format without schema, with narrowed integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pyarrow

from penstock.engine.runtime.chunks import EncodedColumns
from penstock.engine.runtime.columns.chunk import Columns, read_schema
from penstock.engine.runtime.columns.milliseconds import milliseconds
from penstock.engine.runtime.columns.narrow import narrow, narrow_batch, narrow_schema, widen, widen_batch
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.state.arrays.row_keys import Integers


def encoded(columns: Columns) -> EncodedColumns:
    """Return a chunk for an edge: of a slice only its own rows."""
    batch, forms = narrow_batch(columns.batch)
    times, times_form = (None, None) if columns.timestamps is None else narrow(columns.timestamps)
    return EncodedColumns(
        len(columns),
        # A buffer can be pickled only by a copy.
        batch.serialize().to_pybytes(),
        timestamps=None if times is None else times.tobytes(),
        forms=forms,
        timestamps_form=times_form,
        kinds=None if columns.kinds is None else columns.kinds.tobytes(),
    )


def decoder(edge: EdgeInfo) -> Callable[[EncodedColumns], Columns]:
    """Return a function that decodes the columns of an edge."""
    assert edge.schema is not None
    of_edge, event_time_field = read_schema(edge.schema), edge.event_time_field

    def decode(columns: EncodedColumns) -> Columns:
        forms = columns.forms
        sent = of_edge if not forms else narrow_schema(of_edge, forms)
        batch = pyarrow.ipc.read_record_batch(columns.batch, sent)
        if forms:
            batch = widen_batch(batch, forms, of_edge)
        times = _timestamps(columns) if event_time_field is None else milliseconds(batch.column(event_time_field))
        return Columns(batch, times, None if columns.kinds is None else numpy.frombuffer(columns.kinds, numpy.uint8))

    return decode


def _timestamps(columns: EncodedColumns) -> Integers | None:
    times, form = columns.timestamps, columns.timestamps_form
    if times is None:
        return None
    if form is None:
        return numpy.frombuffer(times, numpy.int64)
    return widen(numpy.frombuffer(times, form[1]), form)
