"""Frames in memory: of pandas, of Polars, or tables of Arrow."""

from __future__ import annotations

from typing import Protocol


class ArrowFrame(Protocol):
    """A frame that gives its columns as Arrow: a pandas.DataFrame, a polars.DataFrame, a pyarrow.Table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the columns. Source: Arrow docs, "The Arrow PyCapsule Interface"."""
