"""A source of consecutive integers."""

from penstock.common.doors.door import publish
from penstock.connectors.base.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]

publish(__name__, __all__)
