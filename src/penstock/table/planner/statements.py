"""Statements of a script, and those that are refused before the planner sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, cast

from penstock.table.planner.errors import SqlError

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<text>'(?:[^']|'')*(?:'|\Z)|`(?:[^`]|``)*(?:`|\Z)|"[^"]*(?:"|\Z))
  | (?P<word>[A-Za-z_][A-Za-z_0-9$]*)
  | (?P<semicolon>;)
  | (?P<other>\s+|.)""",
    re.VERBOSE | re.DOTALL,
)


_REFUSED = {
    "UPDATE": "a stream has no rows to update: write the changed rows with INSERT INTO a table with a primary key",
    "DELETE": "a stream has no rows to delete: filter them in a query, or delete them where they are stored",
    "TRUNCATE": "delete the rows where they are stored",
    "ANALYZE": "plans of streams use no statistics",
    "CALL": "there are no procedures",
}
"""Statements that are never executed, and why."""
_OF_JOBS = ("SELECT", "WITH", "VALUES", "INSERT", "EXECUTE", "BEGIN")
"""First words of statements that start a job."""
_OF_QUERIES = ("SELECT", "WITH", "VALUES", "TABLE")
_ASKING = ("SHOW", "DESCRIBE", "DESC", "EXPLAIN")
_MODIFIERS = ("OR", "REPLACE", "TEMPORARY", "SYSTEM")
_EXECUTE = "EXECUTE "


class Token(NamedTuple):
    """A piece of a script: comment, text (a literal or a quoted name), word, semicolon or other."""

    kind: str
    text: str
    start: int


class Statement(NamedTuple):
    """A statement without its semicolon, and the line of the script at which it starts, from 1."""

    sql: str
    line: int


ExplainDetail = Literal["CHANGELOG_MODE", "ESTIMATED_COST", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"]
"""Additions to the text about a plan, by Flink's names."""


class Explain(NamedTuple):
    """EXPLAIN of a query, an insertion or a statement set."""

    statement: str
    details: tuple[ExplainDetail, ...]


BLANK = r"(?:\s|--[^\n]*\n|/\*.*?\*/)"
"""A regular expression of what separates words: white space and comments."""
_DETAIL = "ESTIMATED_COST|CHANGELOG_MODE|JSON_EXECUTION_PLAN|PLAN_ADVICE"
_EXPLAIN = re.compile(
    rf"{BLANK}*EXPLAIN{BLANK}+(?:PLAN{BLANK}+FOR{BLANK}+"
    rf"|(?P<details>(?:{_DETAIL})(?:{BLANK}*,{BLANK}*(?:{_DETAIL}))*){BLANK}+)?(?P<statement>.+)",
    re.IGNORECASE | re.DOTALL,
)


def explain_statement(sql: str) -> Explain | None:
    """Return the parts of EXPLAIN, or None for another statement. What it explains stays at its place in the text."""
    found = _EXPLAIN.fullmatch(sql)
    if found is None:
        return None
    details = re.findall(_DETAIL, found["details"] or "", re.IGNORECASE)
    statement = at_its_place(sql, found.start("statement")).rstrip().rstrip(";")
    return Explain(statement, tuple(cast("ExplainDetail", one.upper()) for one in details))


def at_its_place(sql: str, start: int) -> str:
    """Return the statement that begins at `start`, inside another one, at the same line and column as there.

    So errors of the planner name the place in the whole text. STATEMENT SET gets the EXECUTE that the planner wants.
    """
    before = re.sub(r"[^\n]", " ", sql[:start])
    if re.match(r"STATEMENT\s", sql[start:], re.IGNORECASE):
        before = before[: -len(_EXECUTE)] + _EXECUTE
    return before + sql[start:]


def split_statements(script: str) -> list[Statement]:
    """Return the statements of a script, which semicolons separate; those of a STATEMENT SET are one."""
    found = []
    start, in_set, cases = 0, False, 0
    words: list[str] = []
    for token in tokens(script):
        if token.kind == "word":
            word = token.text.upper()
            words.append(word)
            in_set = in_set or words[-3:] in (["STATEMENT", "SET", "BEGIN"], ["BEGIN", "STATEMENT", "SET"])
            if word == "CASE":
                cases += 1
            elif word == "END" and cases:
                cases -= 1
            elif word == "END":
                in_set = False
        elif token.kind == "semicolon" and not in_set:
            found.append((start, token.start))
            start, words, cases = token.start + 1, [], 0
    found.append((start, len(script)))
    statements, line, counted = [], 1, 0
    for start, end in found:
        sql = script[start:end]
        if _has_content(sql):
            first = end - len(sql.lstrip())
            line, counted = line + script.count("\n", counted, first), first
            statements.append(Statement(sql.strip(), line))
    return statements


def begins_job(sql: str) -> bool:
    """Return whether a statement, if it is valid, starts a job: a query, an insertion, or a plan that is executed."""
    words = [token.text.upper() for token in tokens(sql) if token.kind == "word"][:3]
    return words == ["COMPILE", "AND", "EXECUTE"] or any(word in _OF_JOBS for word in words[:1])


def only_asks(sql: str) -> bool:
    """Return whether a statement changes nothing: SHOW, DESCRIBE, EXPLAIN, and SET without an option."""
    found = [token.text.upper() for token in tokens(sql) if token.kind != "comment" and token.text.strip(" \t\r\n;")]
    return found[:1] == ["SET"] == found or any(word in _ASKING for word in found[:1])


def check_query(sql: str) -> None:
    """Raise SqlError if a text that must be a query begins as another statement."""
    first = next((token for token in tokens(sql) if token.kind != "comment" and token.text.strip()), None)
    if first is not None and first.kind == "word" and first.text.upper() not in _OF_QUERIES:
        raise SqlError(
            f"a query begins with SELECT, WITH or VALUES, got {first.text}: execute_sql has other statements"
        )


def check_statement(sql: str) -> None:
    """Raise SqlError if the statement would load Java code into the planner, or needs Python to be complete."""
    if not _has_content(sql):
        raise SqlError("there is no statement: the text is empty")
    words = [token.text.upper() for token in tokens(sql) if token.kind == "word"]
    if words and words[0] in _REFUSED:
        raise SqlError(f"{words[0]} is not supported: {_REFUSED[words[0]]}")
    if words[:2] == ["SHOW", "PROCEDURES"]:
        raise SqlError("SHOW PROCEDURES is not supported: there are no procedures")
    if words[:2] in (["ADD", "JAR"], ["REMOVE", "JAR"]):
        raise SqlError(f"{' '.join(words[:2])} is not supported: functions and connectors are written in Python")
    kind = next((word for word in words[1:] if word not in _MODIFIERS), "")
    if words[:1] in (["CREATE"], ["ALTER"]) and kind == "FUNCTION":
        language = words[words.index("LANGUAGE") + 1 :][:1] if "LANGUAGE" in words else ["JAVA"]
        if "USING" in words:
            raise SqlError(f"{' '.join(words[words.index('USING') :][:2])} is not supported: write functions in Python")
        if language != ["PYTHON"]:
            raise SqlError(
                f"functions in {language[0].capitalize()} are not supported: write the function in Python, and add "
                "LANGUAGE PYTHON"
            )
        raise SqlError(
            f"{words[0]} FUNCTION ... LANGUAGE PYTHON is expected as CREATE [TEMPORARY [SYSTEM]] FUNCTION "
            "[IF NOT EXISTS] name AS 'module.name' LANGUAGE PYTHON, or as ALTER FUNCTION [IF EXISTS] name AS "
            "'module.name' LANGUAGE PYTHON"
        )


def _has_content(sql: str) -> bool:
    return any(token.kind != "comment" and token.text.strip() for token in tokens(sql))


def tokens(script: str) -> Iterator[Token]:
    """Return the pieces of a script."""
    for match in _TOKEN.finditer(script):
        assert match.lastgroup is not None
        yield Token(match.lastgroup, match[0], match.start())


def shown_place(sql: str, line: int, column: int, end_column: int) -> Sequence[str]:
    """Return the line of the statement, and a line that marks the place in it."""
    lines = sql.splitlines()
    if not 1 <= line <= len(lines) or column < 1:
        return ()
    number = f"{line:>4} | "
    text = lines[line - 1].replace("\t", " ")
    return number + text, " " * (len(number) + column - 1) + "^" * max(1, min(end_column, len(text)) - column + 1)
