"""PostgreSQL sources, sink and lookup; they need the extra `postgres`, `pip install 'penstock-streams[postgres]'`."""

from penstock.common.doors.door import publish
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.postgres.changes.change import Change, ChangeKind
from penstock.connectors.postgres.changes.source import PostgresChangeSource
from penstock.connectors.postgres.changes.startup import StartupOptions
from penstock.connectors.postgres.lookup.lookup import PostgresLookup
from penstock.connectors.postgres.sink.sink import PostgresSink
from penstock.connectors.postgres.source.source import PostgresSource

__all__ = [
    "Change",
    "ChangeKind",
    "DeliveryGuarantee",
    "PostgresChangeSource",
    "PostgresLookup",
    "PostgresSink",
    "PostgresSource",
    "StartupOptions",
]

publish(__name__, __all__)
