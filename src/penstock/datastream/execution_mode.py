"""Execution modes, at PyFlink's module path."""

from penstock.common.doors.door import publish
from penstock.common.execution_mode import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]

publish(__name__, __all__)
