"""A sink into a table of Iceberg; it needs the extra `iceberg`, `pip install 'penstock-streams[iceberg]'`."""

from penstock.common.doors.door import publish
from penstock.connectors.tables.iceberg.sink import IcebergSink, IcebergSinkBuilder

__all__ = ["IcebergSink", "IcebergSinkBuilder"]

publish(__name__, __all__)
