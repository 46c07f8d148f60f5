"""Consistency modes of checkpoints, at PyFlink's module path."""

from penstock.common.configuration.choices import CheckpointingMode
from penstock.common.doors.door import publish

__all__ = ["CheckpointingMode"]

publish(__name__, __all__)
