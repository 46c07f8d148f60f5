"""Refusals of the planner as errors for users: what is wrong, where in the statement; no Java."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.table.planner.errors import SqlError
from penstock.table.planner.statements import shown_place

_FROM_TO = re.compile(r"From line (\d+), column (\d+) to line (\d+), column (\d+): ?")
_AT = re.compile(r"(?:at|At) line (\d+), column (\d+)(?:: ?)?")
_EXPECTING = re.compile(r"\s*Was expecting(?: one of)?:?\s*(.*)", re.DOTALL)
_VALIDATION = "SQL validation failed."
_EXPECTED_MAX = 12
_MISSING = re.compile(r"class penstock\.\S+ cannot be cast to class \S+\.(\w+?)(?:Table)?(?:Source|Sink) ")
"""Matches what the planner says if a table must be able to do more than ours."""
_CLASS = re.compile(r"\b(?:class )?(?:org|java|javax|scala|penstock)\.(?:\w+\.)*([A-Z]\w*)")
"""Matches names of classes in Java with their packages, which say nothing to users of SQL."""
_ENCOUNTERED = re.compile(r'Encountered "([A-Za-z]\w*)')
_NAME = "<IDENTIFIER>"
_RULE = "Error while applying rule "
"""The beginning of what the optimizer says in front of its reason."""
_NO_TIME = re.compile(r"requires the timecol is a time attribute type, but is .+")
_NO_STATEMENT = "Non-query expression encountered in illegal context"
_NO_FUNCTION = re.compile(r"Cannot apply '\$SCALAR_QUERY' to arguments of type .*", re.DOTALL)
_PLAN = re.compile(r"^[ :+|-]*(?:FlinkLogical|Logical|StreamPhysical)\w+\(.*\n?", re.MULTILINE)
"""Matches lines of plans, in which the planner shows what it could not make of the query."""
_BEFORE_PLAN = re.compile(r" (?:The physical plan is:|for the given query:)\s*")
_LATENCY = "MiniBatch Latency must be greater than 0 ms. [null]"
_QUOTE = 'Encountered "\\""'
_NO_CONNECTOR = re.compile(r"^Unable to create a \w+ for \w+ table '[^']*'\.\s+Table options are:\s+(?=Table )")
"""Matches a list of options, of which there are none."""
_NO_PLAN = re.compile(r"\s*This exception indicates that the query uses an unsupported SQL feature\..*", re.DOTALL)
"""Matches all that the optimizer has tried."""
_NO_HINT = re.compile(r"Hint: (\w+) should be registered in the HintStrategyTable")
_ENUM = re.compile(r"Could not parse value for enum (?:class )?[\w.$]+\. ")
_ENFORCED = re.compile(r"Flink doesn't support ENFORCED mode for PRIMARY KEY constraint\..*")
_HINTS = {
    "Only constant window descriptors are supported.": "The number of an interval is a text: INTERVAL '10' SECOND.",
    "only single statement supported": "Execute each by itself, or a script by `penstock sql -f`.",
    "Bang equal '!=' is not allowed": "Write <>.",
    'Encountered "= ="': "Write =.",
    'Encountered "\\\'"': "A text that begins here has no end.",
    "implicit type conversion between": "Write CAST.",
    "Unsupported time travel expression": "FOR SYSTEM_TIME AS OF names a time attribute of the row: o.ordered.",
    "cannot be used as a table function": "A function of SQL of that name comes first: choose another name.",
}
"""The planner's texts, and what to do."""
_INSTEAD = {
    "CREATE TABLE AS": "Write CREATE TABLE, then INSERT INTO",
    "REPLACE TABLE AS": "Write CREATE TABLE, then INSERT INTO",
    "SHOW JOBS": "In a terminal: penstock list",
    "STOP JOB": "In a terminal: penstock stop",
    "DESCRIBE JOB": "In a terminal: penstock list",
}
"""Statements that are not executed -> what does the same."""
_NO_COLUMN = re.compile(r"Column '\w+' not found in any table")
_NO_TYPE = re.compile(r"Unknown identifier '(\w+)'")
_WINDOW_OF = re.compile(
    r"\b(?:TUMBLE|HOP|CUMULATE|SESSION)\s*\(\s*(?!TABLE\b|DATA\b)|\bTABLE\s+\w+\s*,\s*(?!DESCRIPTOR\b|TIMECOL\b)\w"
)
"""Matches a window function whose table or whose time is a bare name."""
_TABLE_FUNCTION = re.compile(r"\bTABLE\s*\(\s*(\w+)\s*\(\s*TABLE\b", re.IGNORECASE)
_TABLE_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
_OPERATION = re.compile(r"(?<=[a-z])(?=[A-Z])")


def sql_error(sql: str, causes: Sequence[Mapping[str, Any]]) -> SqlError:
    """Return the error for a statement that the planner refuses, from the exceptions that it states."""
    outer = causes[0]
    if str(outer["class"]).endswith("UnsupportedOperationException") and str(outer["at"]).startswith("penstock."):
        operation = _OPERATION.sub(" ", str(outer["message"]).removesuffix("Operation")).upper()
        instead = f". {_INSTEAD[operation]}" if operation in _INSTEAD else ""
        return SqlError(f"this statement is not supported: {operation}{instead}\n{_first_line(sql)}")
    if missing := next(filter(None, (_MISSING.search(str(cause["message"])) for cause in causes)), None):
        return SqlError(
            f"this statement is not supported: {_OPERATION.sub(' ', missing[1]).upper()}\n{_first_line(sql)}"
        )
    message = _message(causes)
    line, column, end_column = 0, 0, 0
    if found := _FROM_TO.search(message):
        line, column, last, end_column = map(int, found.groups())
        end_column = end_column if last == line else 1 << 30
        message = message.replace(found[0], "", 1)
    elif at := _AT.search(message):
        line, column = map(int, at.groups())
        end_column = column
        message = message.replace(at[0], "", 1).replace(" .", ".")
    message = _with_hint(_with_expected(_CLASS.sub(r"\1", _in_words(message, sql))))
    place = shown_place(sql, line, column, end_column) or (_first_line(sql),)
    where = f" (line {line}, column {column})" if line else ""
    return SqlError("\n".join([message + where, *place]), line=line, column=column)


def _message(causes: Sequence[Mapping[str, Any]]) -> str:
    """Return the outermost message, with those of its causes that say more."""
    parts: list[str] = []
    for cause in causes:
        text = str(cause["message"] or cause["class"]).strip()
        # An insertion is validated in two steps, and each adds this.
        text = text.replace(f"{_VALIDATION} {_VALIDATION}", _VALIDATION)
        if not any(text in part for part in parts):
            parts.append(text)
    parts = [part for part in parts if not part.startswith(_RULE)] or parts
    return "\n".join(parts[:1] if _has_place(parts[0]) else parts)


def _in_words(message: str, sql: str) -> str:
    """Say what the planner says about its own terms in terms of the statement."""
    without_plan = _PLAN.sub("", message)
    if without_plan != message:
        message = _BEFORE_PLAN.sub("\n", without_plan).strip()
    message = message.replace(_LATENCY, f"{_LATENCY[:-8]}: set table.exec.mini-batch.allow-latency")
    if _QUOTE in message:
        message = message.replace(_QUOTE, f"{_QUOTE}: names are between backquotes, texts between ' and '")
    message = _ENFORCED.sub("write PRIMARY KEY (...) NOT ENFORCED: nothing checks that a key comes once", message)
    message = _NO_CONNECTOR.sub("", message)
    message = _NO_PLAN.sub("", message).replace("Cannot generate a valid execution plan", "no operator executes this")
    message = _NO_HINT.sub(r"there is no hint \1: OPTIONS, STATE_TTL, LOOKUP, BROADCAST", message)
    message = _ENUM.sub("", message).replace(", or ExecutionConfig.PARALLELISM_DEFAULT (use system default)", "")
    message = message.replace(f"{_VALIDATION} {_VALIDATION}", _VALIDATION)
    if (found := _NO_TYPE.search(message)) and sql.lstrip()[:6].upper() == "CREATE":
        message = message.replace(
            found[0], f"there is no type {found[1]}: texts are STRING, numbers INT, BIGINT or DOUBLE"
        )
    if (found := _NO_COLUMN.search(message)) and _WINDOW_OF.search(sql):
        message = message.replace(
            found[0],
            f"{found[0]}: a window function is called as TUMBLE(TABLE t, DESCRIPTOR(column), INTERVAL '10' SECOND)",
        )
    if _NO_STATEMENT in message:
        words = sql.split(maxsplit=1)
        return message.replace(_NO_STATEMENT, f"a statement does not begin with {words[0] if words else 'nothing'}")
    if found := _NO_TIME.search(message):
        return message.replace(
            found[0], f"{found[0]} In CREATE TABLE, declare WATERMARK FOR the column, or a column AS PROCTIME()."
        )
    called = next((one for one in _TABLE_FUNCTION.findall(sql) if one.upper() not in _TABLE_FUNCTIONS), None)
    if called is not None:
        return _NO_FUNCTION.sub(f"there is no table function {called}: {', '.join(_TABLE_FUNCTIONS)}", message)
    return message


def _with_hint(message: str) -> str:
    hint = next((hint for said, hint in _HINTS.items() if said in message), None)
    return message if hint is None else f"{message.rstrip('.')}. {hint}"


def _has_place(text: str) -> bool:
    return bool(_FROM_TO.search(text) or _AT.search(text))


def _with_expected(message: str) -> str:
    """Shorten the list of what the parser would accept."""
    found = _EXPECTING.search(message)
    if found is None:
        return message
    expected = [one.strip().removesuffix("...").strip() for one in found[1].splitlines() if one.strip()]
    word = _ENCOUNTERED.search(message)
    hint = f" {word[1]} is a word of SQL: as a name, write `{word[1]}`." if word and _NAME in expected else ""
    # There is a token for each kind of quotes.
    expected = [one for one in expected if not one.endswith(("_IDENTIFIER>", "_QUOTED_STRING>", "_STRING_LITERAL>"))]
    expected = ["a text between ' and '" if one == "<QUOTED_STRING>" else one for one in expected]
    shown = ", ".join(expected[:_EXPECTED_MAX]) + (", ..." if len(expected) > _EXPECTED_MAX else "")
    return f"{message[: found.start()]} Expected: {shown}.{hint}"


def _first_line(sql: str) -> str:
    lines = sql.strip().splitlines() or [""]
    return f"   1 | {lines[0]}" + (" ..." if len(lines) > 1 else "")
