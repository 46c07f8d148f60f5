"""Orders of sorting."""

from penstock.api.order import Order
from penstock.common.doors.door import publish

__all__ = ["Order"]

publish(__name__, __all__)
