"""PostgreSQL source and sink; they need the extra `postgres`, `pip install 'penstock-streams[postgres]'`."""

from penstock.common.door import publish
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.postgres.sink.sink import PostgresSink, PostgresSinkBuilder
from penstock.connectors.postgres.source.source import PostgresSource, PostgresSourceBuilder

__all__ = ["DeliveryGuarantee", "PostgresSink", "PostgresSinkBuilder", "PostgresSource", "PostgresSourceBuilder"]

publish(__name__, __all__)
