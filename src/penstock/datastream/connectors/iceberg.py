"""A sink into a table of Iceberg; it needs the extra `iceberg`, `pip install 'penstock-streams[iceberg]'`."""

from penstock.common.doors.door import publish
from penstock.connectors.tables.iceberg import IcebergSink

__all__ = ["IcebergSink"]

publish(__name__, __all__)
