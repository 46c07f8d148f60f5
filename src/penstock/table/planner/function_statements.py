"""CREATE, ALTER and DROP of functions in Python. Source: Flink docs, "SQL", CREATE, ALTER and DROP Statements.

The planner knows functions in Python as temporary ones; here they are what the statement says.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BLANK = r"(?:\s|--[^\n]*\n|/\*.*?\*/)"
_PATH = r"(?P<path>(?:`(?:[^`]|``)+`|[^\s`;])+)"
_END = rf"{_BLANK}*;?{_BLANK}*"
_TARGET = rf"{_BLANK}+AS{_BLANK}+'(?P<target>(?:[^']|'')*)'{_BLANK}+LANGUAGE{_BLANK}+PYTHON"
_TEMPORARY = rf"(?P<temporary>TEMPORARY{_BLANK}+(?P<system>SYSTEM{_BLANK}+)?)?"
_FORMS = tuple(
    re.compile(rf"{_BLANK}*{form}{_END}", re.IGNORECASE | re.DOTALL)
    for form in (
        rf"(?P<verb>CREATE){_BLANK}+(?P<replace>OR{_BLANK}+REPLACE{_BLANK}+)?{_TEMPORARY}FUNCTION{_BLANK}+"
        rf"(?P<exists>IF{_BLANK}+NOT{_BLANK}+EXISTS{_BLANK}+)?{_PATH}{_TARGET}",
        rf"(?P<verb>ALTER){_BLANK}+{_TEMPORARY}FUNCTION{_BLANK}+(?P<exists>IF{_BLANK}+EXISTS{_BLANK}+)?{_PATH}{_TARGET}",
        rf"(?P<verb>DROP){_BLANK}+{_TEMPORARY}FUNCTION{_BLANK}+(?P<exists>IF{_BLANK}+EXISTS{_BLANK}+)?{_PATH}",
    )
)


_DESCRIBE = re.compile(
    rf"{_BLANK}*DESC(?:RIBE)?{_BLANK}+FUNCTION{_BLANK}+(?P<extended>EXTENDED{_BLANK}+)?{_PATH}{_END}",
    re.IGNORECASE | re.DOTALL,
)


class DescribeFunction(NamedTuple):
    """DESCRIBE FUNCTION."""

    path: str
    is_extended: bool


def describe_function(sql: str) -> DescribeFunction | None:
    """Return the parts of DESCRIBE FUNCTION; None for any other statement."""
    found = _DESCRIBE.fullmatch(sql)
    return None if found is None else DescribeFunction(found["path"], found["extended"] is not None)


class FunctionStatement(NamedTuple):
    """A statement about a function. `verb`: CREATE, ALTER or DROP."""

    verb: str
    path: str
    target: str
    """Module and name of the function; empty for DROP."""
    is_temporary: bool
    is_system: bool
    has_if: bool
    """IF NOT EXISTS of CREATE, IF EXISTS of the others."""
    replaces: bool


def function_statement(sql: str) -> FunctionStatement | None:
    """Return the parts of a statement about a function in Python; None for any other statement.

    DROP FUNCTION does not say in which language the function is.
    """
    for form in _FORMS:
        if (found := form.fullmatch(sql)) is not None:
            parts = found.groupdict()
            return FunctionStatement(
                found["verb"].upper(),
                found["path"],
                (parts.get("target") or "").replace("''", "'"),
                is_temporary=found["temporary"] is not None,
                is_system=found["system"] is not None,
                has_if=found["exists"] is not None,
                replaces=parts.get("replace") is not None,
            )
    return None
