"""PostgreSQL sources, sink and lookup; they need the extra `postgres`, `pip install 'penstock-streams[postgres]'`."""

from penstock.common.doors.door import publish
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.postgres.changes.change import Change, ChangeKind
from penstock.connectors.postgres.changes.source import PostgresChangeSource, PostgresChangeSourceBuilder
from penstock.connectors.postgres.changes.startup import StartupOptions
from penstock.connectors.postgres.lookup.lookup import PostgresLookup, PostgresLookupBuilder
from penstock.connectors.postgres.sink.sink import PostgresSink, PostgresSinkBuilder
from penstock.connectors.postgres.source.source import PostgresSource, PostgresSourceBuilder

__all__ = [
    "Change",
    "ChangeKind",
    "DeliveryGuarantee",
    "PostgresChangeSource",
    "PostgresChangeSourceBuilder",
    "PostgresLookup",
    "PostgresLookupBuilder",
    "PostgresSink",
    "PostgresSinkBuilder",
    "PostgresSource",
    "PostgresSourceBuilder",
    "StartupOptions",
]

publish(__name__, __all__)
