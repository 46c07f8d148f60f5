"""COMPILE PLAN and EXECUTE PLAN: plans in files. Source: Flink docs, "SQL", Statements; TableEnvironment.

The planner's process neither writes nor reads files: it plans the statement behind FOR.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from penstock.table.planner.errors import SqlError
from penstock.table.planner.statements import BLANK, at_its_place
from penstock.table.query_options import FORCE_RECOMPILE

_PLAN = re.compile(
    rf"{BLANK}*(?P<verbs>COMPILE{BLANK}+AND{BLANK}+EXECUTE|COMPILE|EXECUTE){BLANK}+PLAN{BLANK}+"
    rf"'(?P<file>(?:[^']|'')*)'{BLANK}*(?P<exists>IF{BLANK}+NOT{BLANK}+EXISTS{BLANK}+)?"
    rf"(?:FOR{BLANK}+(?P<statement>.*))?",
    re.IGNORECASE | re.DOTALL,
)


class PlanStatement(NamedTuple):
    """COMPILE PLAN, EXECUTE PLAN, or both."""

    file: Path
    statement: str | None
    """The statement to compile, at its place in the text; None for EXECUTE PLAN."""
    may_exist: bool
    """Whether a file that is there is used."""
    executes: bool

    def existing(self, *, force: bool) -> str | None:
        """Return the plan that is there and is used; None: compile it. `force`: the option FORCE_RECOMPILE.

        Raises SqlError if the file of EXECUTE PLAN is missing, or that of COMPILE PLAN exists.
        """
        if self.statement is None:
            try:
                return self.file.read_text(encoding="utf-8")
            except FileNotFoundError:
                raise SqlError(f"there is no plan {self.file}: COMPILE PLAN writes one") from None
            except (OSError, UnicodeDecodeError) as error:
                why = getattr(error, "strerror", None) or error
                raise SqlError(f"the plan {self.file} can't be read: {why}") from None
        if force or not self.file.exists():
            return None
        if not self.may_exist:
            raise SqlError(
                f"the plan {self.file} exists. Remove it, add IF NOT EXISTS, or set {FORCE_RECOMPILE.key} to true"
            )
        return self.file.read_text(encoding="utf-8")

    def write(self, plan: str) -> None:
        """Write the plan. Raises SqlError."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(plan, encoding="utf-8")
        except OSError as error:
            raise SqlError(f"the plan {self.file} can't be written: {error}") from None


def plan_statement(sql: str) -> PlanStatement | None:
    """Return the parts of a statement about a plan in a file, or None if it is another one. Raises SqlError."""
    found = _PLAN.fullmatch(sql)
    if found is None:
        return None
    compiles, executes = (word in found["verbs"].upper() for word in ("COMPILE", "EXECUTE"))
    begins = re.match(r"\w+", found["statement"] or "")
    if compiles != (begins is not None and begins[0].upper() in ("INSERT", "STATEMENT", "EXECUTE")):
        form = "COMPILE PLAN 'file' FOR INSERT ..." if compiles else "EXECUTE PLAN 'file'"
        raise SqlError(f"expected {form}, got\n{sql}")
    statement = at_its_place(sql, found.start("statement")) if compiles else None
    return PlanStatement(
        _path(found["file"].replace("''", "'")), statement, executes or bool(found["exists"]), executes
    )


def _path(text: str) -> Path:
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme:
        raise SqlError(f"the plan {text} is not in a file of this machine: name a path")
    return Path(text)
