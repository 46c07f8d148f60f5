"""The options of SQL that are read where a statement is executed, parsed as Flink parses them.

A value is text, in a plan too: `TRUE` is true, and `trim-pad` is TRIM_PAD. The planner reads all other options itself.
Source: Flink docs, "Configuration" of the Table API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import BooleanType, DurationType, IntegerType, TextType, ValueType
from penstock.common.configuration.option_checks import closest
from penstock.table.planner.errors import SqlError

T = TypeVar("T")


class OneOf(ValueType[str]):
    """A word of several, in any case, with `-` or `_`."""

    def __init__(self, *choices: str) -> None:
        self._choices: Sequence[str] = choices
        self.name = f"one of {', '.join(choices)}"

    def parse(self, text: str) -> str:
        """Return the word as it is declared."""
        found = text.strip().upper().replace("-", "_")
        if found not in self._choices:
            raise ValueError(f"got {text!r}")
        return found


MINI_BATCH = option("table.exec.mini-batch.enabled", BooleanType(), False)
MINI_BATCH_LATENCY = option("table.exec.mini-batch.allow-latency", DurationType(), 0)
MINI_BATCH_SIZE = option("table.exec.mini-batch.size", IntegerType(64), -1)
NOT_NULL_ENFORCER = option("table.exec.sink.not-null-enforcer", OneOf("ERROR", "DROP"), "ERROR")
LENGTH_ENFORCER = option("table.exec.sink.type-length-enforcer", OneOf("IGNORE", "TRIM_PAD", "ERROR"), "IGNORE")
NESTED_ENFORCER = option(
    "table.exec.sink.nested-constraint-enforcer", OneOf("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS"), "IGNORE"
)
ROWTIME_INSERTER = option("table.exec.sink.rowtime-inserter", OneOf("ENABLED", "DISABLED"), "ENABLED")
DEFAULT_PARALLELISM = option("table.exec.resource.default-parallelism", IntegerType(32), -1)
SORT_AT_END = option("__table.exec.sort.non-temporal.enabled__", BooleanType(), False)
"""An internal option of Flink's tests."""
ZONE = option("table.local-time-zone", TextType(), "UTC")
DML_SYNC = option("table.dml-sync", BooleanType(), False)
FORCE_RECOMPILE = option("table.plan.force-recompile", BooleanType(), False)
RESULT_MODE = option("sql-client.execution.result-mode", OneOf("TABLE", "CHANGELOG", "TABLEAU"), "TABLE")
RUNTIME_MODE = option("execution.runtime-mode", OneOf("STREAMING", "BATCH", "AUTOMATIC"), "STREAMING")

_KNOWN = [
    *(one.key for one in list(globals().values()) if isinstance(one, ConfigOption)),
    "table.exec.state.ttl",
    "table.exec.source.idle-timeout",
    "table.exec.sink.upsert-materialize",
]
_SET = re.compile(r"\s*SET\s+'?([\w.-]+)'?\s*=", re.IGNORECASE)


def check_set(statement: str) -> None:
    """Raise SqlError if a statement sets an option of tables that is misspelled: it would have no effect."""
    found = _SET.match(statement)
    if found is None or not found[1].startswith("table.") or found[1] in _KNOWN:
        return
    if near := closest(found[1], _KNOWN):
        raise SqlError(f"there is no option {found[1]!r}. Did you mean {' or '.join(map(repr, near))}?")


def value_of(options: Mapping[str, Any], wanted: ConfigOption[T]) -> T:
    """Return the value of an option, or its default. Raises SqlError if it has another type."""
    given = options.get(wanted.key)
    if given is None:
        return wanted.default
    try:
        return wanted.value_type.parse(str(given))
    except ValueError:
        raise SqlError(f"{wanted.key} is {given!r}: expected {wanted.value_type.name}") from None
