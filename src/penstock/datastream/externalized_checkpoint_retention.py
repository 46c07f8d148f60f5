"""Retention of checkpoints after cancellation, at PyFlink's module path."""

from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.common.doors.door import publish

__all__ = ["ExternalizedCheckpointRetention"]

publish(__name__, __all__)
