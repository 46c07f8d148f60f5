"""Buckets by the values of columns, with the names by which Spark and Hive discover partitions."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from penstock.common.record_fields import fields_of
from penstock.common.types import Row
from penstock.connectors.files.sink.bucket import BucketAssigner, BucketContext

_NOTHING = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{}\[\]^]")
"""Characters that a name has as %XX. Source: Hive, FileUtils.escapePathName, which Spark follows."""


class PartitionBucketAssigner(BucketAssigner):
    """A folder for each combination of values: `column=value/…`. Raises ValueError without a column."""

    def __init__(self, columns: Sequence[str]) -> None:
        if not columns:
            raise ValueError("partitions need at least one column, got none")
        self._columns = tuple(columns)
        self._prefixes = [f"{_escaped(column)}=" for column in columns]

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return the folder. Raises TypeError for a record without these fields, or a value that is in no name."""
        if isinstance(element, (dict, Row)):
            values = tuple([element[column] for column in self._columns])
        elif isinstance(element, (tuple, list)) and not hasattr(element, "_fields"):
            raise TypeError(
                f"partitions are by names of fields, which a {type(element).__name__} has not: {element!r:.200}"
            )
        else:
            values = tuple(fields_of(element, self._columns))
        return "/".join(prefix + _text(value) for prefix, value in zip(self._prefixes, values, strict=True))


def _text(value: Any) -> str:
    if value is None or value == "":
        return _NOTHING
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
