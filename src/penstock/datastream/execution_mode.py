"""Execution modes, at PyFlink's module path."""

from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.doors.door import publish

__all__ = ["RuntimeExecutionMode"]

publish(__name__, __all__)
