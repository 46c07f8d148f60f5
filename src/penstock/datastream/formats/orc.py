"""ORC files."""

from __future__ import annotations

from penstock.common.configuration import Configuration
from penstock.common.doors.door import publish
from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.files.formats.orc_format import OrcFormat, OrcWriterFactory

__all__ = ["OrcBulkWriters", "OrcFormat"]


class OrcBulkWriters:
    """Writer factories of ORC files for `FileSink.for_bulk_format`.

    Records are dicts, Rows, tuples, or objects with attributes.
    """

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo, writer_properties: Configuration | None = None, hadoop_config: None = None
    ) -> OrcWriterFactory:
        """Return a factory for files with the columns of a `Types.ROW_NAMED`. Hadoop's configuration is ignored.

        The property `orc.compress` may be NONE, ZLIB (the default), SNAPPY, LZ4 or ZSTD; other properties are ignored.
        Raises TypeError for a field without a column type (pickled values), ValueError for another compression.
        """
        compress = writer_properties.get_string("orc.compress", "ZLIB") if writer_properties is not None else "ZLIB"
        return OrcWriterFactory(row_type, compression={"NONE": "uncompressed"}.get(compress, compress.lower()))


publish(__name__, __all__)
