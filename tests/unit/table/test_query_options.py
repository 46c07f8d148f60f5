"""The options of SQL that are read where a statement is executed: as Flink parses them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import penstock.table
from penstock.common.config_options import ConfigOption
from penstock.table.planner.errors import SqlError
from penstock.table.query_options import DML_SYNC, LENGTH_ENFORCER, MINI_BATCH, MINI_BATCH_SIZE, ZONE, value_of

TABLE = Path(penstock.table.__file__).parent


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (MINI_BATCH, "TRUE", True),
        (MINI_BATCH, "False", False),
        (DML_SYNC, " true", True),
        (MINI_BATCH_SIZE, "5000", 5000),
        (MINI_BATCH_SIZE, 7, 7),
        (LENGTH_ENFORCER, "trim-pad", "TRIM_PAD"),
        (ZONE, "Europe/Berlin", "Europe/Berlin"),
    ],
)
def test_values_of_any_case(option: ConfigOption[Any], text: Any, value: Any) -> None:
    """An option that is written otherwise would be ignored, in silence."""
    assert value_of({option.key: text}, option) == value
    assert value_of({}, option) == option.default


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (MINI_BATCH, "yes", "mini-batch.enabled is 'yes': expected true or false"),
        (MINI_BATCH_SIZE, "5k", "mini-batch.size is '5k': expected a whole number"),
        (LENGTH_ENFORCER, "PAD", "type-length-enforcer is 'PAD': expected one of IGNORE, TRIM_PAD, ERROR"),
    ],
)
def test_values_that_are_none(option: ConfigOption[Any], text: str, message: str) -> None:
    """The error names the option and what it may be."""
    with pytest.raises(SqlError, match=message):
        value_of({option.key: text}, option)


def test_options_are_named_in_one_place() -> None:
    """One that is read elsewhere would be compared as text again."""
    names = re.compile(r'"(?:table|sql-client)\.[a-z]+[.-][a-z.-]+"')
    others = [path for path in TABLE.rglob("*.py") if path.name != "query_options.py"]
    assert [str(path) for path in others if names.search(path.read_text(encoding="utf-8"))] == []
