"""Names like one that does not exist: what a misspelled table, column or function of a statement may mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping

Names = Callable[[], Collection[str]]

TABLE, COLUMN, FUNCTION = "table", "column", "function"
_UNKNOWN = {
    TABLE: re.compile(
        r"Object '([^']+)' not found(?! within)|Cannot find table '(?:`[^`]*`\.)*`([^`]+)`'"
        r"|with (?:the )?identifier '(?:[^'.]*\.)*([^'.]+)' does(?:n't| not) exist"
    ),
    COLUMN: re.compile(r"Column '([^']+)' not found in (?:any table|table ')"),
    FUNCTION: re.compile(r"No match found for function signature (\w+)\("),
}
"""The planner's sentences about each, with the name that it does not know."""
_PLACE = re.compile(r"\.?(?= \(line \d+, column \d+\)$)|\.?$")
_LIKENESS = 0.7


def with_near_names(message: str, names: Mapping[str, Names]) -> str:
    """Return an error of the planner with the names that are like the unknown one, if there are any.

    `names`: all names of each: TABLE, COLUMN, FUNCTION.
    """
    first, *others = message.split("\n")
    found = next(((kind, match) for kind, of in _UNKNOWN.items() if (match := of.search(first))), None)
    if found is None or "did you mean" in first:
        return message
    unknown = next(filter(None, found[1].groups()))
    shown = str.upper if unknown.isupper() and found[0] == FUNCTION else str
    by_lower = {name.lower(): shown(name) for name in sorted(names[found[0]]())}
    near = difflib.get_close_matches(unknown.lower(), by_lower, n=3, cutoff=_LIKENESS)
    if not near:
        return message
    # A function that exists, in any case, has other arguments; a column that exists is one of another table.
    if near[0] == unknown.lower() and (found[0] == FUNCTION or by_lower[near[0]] == unknown):
        return message
    meant = " or ".join(repr(by_lower[one]) for one in near)
    return "\n".join([_PLACE.sub(f"; did you mean {meant}?", first, count=1), *others])
