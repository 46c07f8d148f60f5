"""A sink into a table of Delta Lake; it needs the extra `delta`, `pip install 'penstock-streams[delta]'`."""

from penstock.common.doors.door import publish
from penstock.connectors.tables.delta import DeltaSink

__all__ = ["DeltaSink"]

publish(__name__, __all__)
