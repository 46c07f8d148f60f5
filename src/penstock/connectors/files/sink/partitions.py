"""Folders by the values of columns, with the names by which Spark and Hive discover partitions."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

from penstock.common.types import Row
from penstock.common.types.record_fields import fields_of

NOTHING = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{}\[\]^]")
"""Characters that a name has as %XX. Source: Hive, FileUtils.escapePathName, which Spark follows."""


def partition_values(record: Any, columns: tuple[str, ...]) -> list[Any]:
    """The values of a record's fields of these names. Raises TypeError, KeyError or ValueError if it has none."""
    if isinstance(record, (dict, Row)):
        return [record[column] for column in columns]
    if isinstance(record, (tuple, list)) and not hasattr(record, "_fields"):
        raise TypeError(f"partitions are by fields of a name, and these have none: {record!r:.200}")
    return list(fields_of(record, columns, has_all=False))


def folder_of(column: str, value: Any) -> str:
    """The name of a folder: `column=value`. Raises TypeError for a value that no name can hold."""
    return f"{_escaped(column)}={_text(value)}"


def _text(value: Any) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return _escaped(value.isoformat(" "))
    if isinstance(value, (str, int, float, Decimal, datetime.date)):
        return _escaped(str(value))
    raise TypeError(
        f"a partition is named by a text, a number, a boolean, a date or a time, got {value!r:.200} of type "
        f"{type(value).__name__}"
    )


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)
