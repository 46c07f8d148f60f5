"""Databases by SQLAlchemy; they need the extra `sql`, `pip install 'penstock-streams[sql]'`, and a driver."""

from penstock.common.doors.door import publish
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.sql.sink.sink import SqlSink
from penstock.connectors.sql.source.source import SqlSource

__all__ = ["DeliveryGuarantee", "SqlSink", "SqlSource"]

publish(__name__, __all__)
