"""Parquet files."""

from __future__ import annotations

from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.file_system.parquet_format import ParquetFormat

__all__ = ["ParquetColumnarRowInputFormat", "ParquetFormat"]


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Rows of the columns that `row_type` names. Types are those of the file; Hadoop's configuration has no meaning."""

    def __init__(
        self,
        row_type: RowTypeInfo,
        hadoop_config: None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        """`batch_size`: rows decoded at once.

        The last two arguments are accepted for PyFlink's sake: names are taken as written, timestamps as Parquet says.
        """
        super().__init__(row_type.get_field_names(), as_row=True, batch_records=batch_size)
        self._row_type = row_type

    def get_produced_type(self) -> RowTypeInfo:
        """The row type."""
        return self._row_type
