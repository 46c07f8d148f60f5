"""Execution modes, at PyFlink's module path."""

from penstock.common.execution_mode import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]
