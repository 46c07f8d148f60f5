"""PostgreSQL source and sink; they need the extra `postgres`, `pip install 'penstock-streams[postgres]'`."""

from penstock.common.door import publish
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.postgres.sink.sink import PostgresSink, PostgresSinkBuilder

__all__ = ["DeliveryGuarantee", "PostgresSink", "PostgresSinkBuilder"]

publish(__name__, __all__)
