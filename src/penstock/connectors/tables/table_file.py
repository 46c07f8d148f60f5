"""Committables of sinks into tables: a Parquet file, and by what the table knows that it has it."""

from __future__ import annotations

import msgspec

from penstock.common.stored import stored_as
from penstock.connectors.files.sink.committer import Completed


@stored_as("table-file")
class TableFile(msgspec.Struct, frozen=True):
    """File `number` of a writer, from 0; `writer` names one attempt of one subtask of one sink of one job.

    The table keeps the greatest number of each writer, in the commit that adds the file.
    """

    file: Completed
    writer: str
    number: int
