"""CREATE, ALTER and DROP of functions in Python. Source: Flink docs, "SQL", CREATE, ALTER and DROP Statements.

The planner knows functions in Python as temporary ones; here they are what the statement says.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.table.planner.statements import BLANK

_PATH = r"(?P<path>(?:`(?:[^`]|``)+`|[^\s`;])+)"
_END = rf"{BLANK}*;?{BLANK}*"
_TARGET = rf"{BLANK}+AS{BLANK}+'(?P<target>(?:[^']|'')*)'{BLANK}+LANGUAGE{BLANK}+PYTHON"
_TEMPORARY = rf"(?P<temporary>TEMPORARY{BLANK}+(?P<system>SYSTEM{BLANK}+)?)?"
_FORMS = tuple(
    re.compile(rf"{BLANK}*{form}{_END}", re.IGNORECASE | re.DOTALL)
    for form in (
        rf"(?P<verb>CREATE){BLANK}+(?P<replace>OR{BLANK}+REPLACE{BLANK}+)?{_TEMPORARY}FUNCTION{BLANK}+"
        rf"(?P<exists>IF{BLANK}+NOT{BLANK}+EXISTS{BLANK}+)?{_PATH}{_TARGET}",
        rf"(?P<verb>ALTER){BLANK}+{_TEMPORARY}FUNCTION{BLANK}+(?P<exists>IF{BLANK}+EXISTS{BLANK}+)?{_PATH}{_TARGET}",
        rf"(?P<verb>DROP){BLANK}+{_TEMPORARY}FUNCTION{BLANK}+(?P<exists>IF{BLANK}+EXISTS{BLANK}+)?{_PATH}",
    )
)


_DESCRIBE = re.compile(
    rf"{BLANK}*DESC(?:RIBE)?{BLANK}+FUNCTION{BLANK}+(?P<extended>EXTENDED{BLANK}+)?{_PATH}{_END}",
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
