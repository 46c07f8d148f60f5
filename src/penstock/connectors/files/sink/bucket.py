"""Bucket assigners: the directory below the base path to which a record is written."""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from penstock.common.types import Row
from penstock.common.types.record_fields import fields_of


class BucketContext(msgspec.Struct, frozen=True, gc=False):
    """The record's timestamp, and processing time and watermark, in milliseconds."""

    timestamp: int | None
    current_processing_time: int
    current_watermark: int


class BucketAssigner(ABC):
    """Assign a bucket to each record. Any object with a method `get_bucket_id` is accepted instead."""

    @abstractmethod
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return a relative path such as `2013-01-01--05` or `airport=JFK`; "" is the base path itself."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Return an assigner that writes everything to the base path."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Return an assigner of buckets by processing time, hourly by default.

        `format_str`: a Java date pattern (`yyyy-MM-dd--HH`), or a `strftime` pattern if it contains `%`. `timezone_id`:
        an IANA name; None means the machine's zone. Raise ValueError for an unknown zone or pattern letter. Source:
        Flink docs, "FileSystem", Bucket Assignment.
        """
        return DateTimeBucketAssigner(format_str, timezone_id)

    @staticmethod
    def event_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = "UTC"
    ) -> BucketAssigner:
        """Return an assigner of buckets by the timestamps of records, hourly by default.

        A replay writes a record to the same folder again. `format_str`, `timezone_id` and errors: as for
        `date_time_bucket_assigner`. Raise ValueError for a record without a timestamp.
        """
        return EventTimeBucketAssigner(format_str, timezone_id)

    @staticmethod
    def partition_bucket_assigner(*columns: str) -> BucketAssigner:
        """Return an assigner by the values of these fields: `year=2013/day=2013-01-01`, as in Spark and Hive.

        Readers of the table find the columns in the names of folders; the files may omit them. None and the empty text
        have the folder name that Hive uses for them. Raise ValueError without a column. Source: Spark docs, "Parquet
        Files", Partition Discovery.
        """
        return PartitionBucketAssigner(columns)


class BasePathBucketAssigner(BucketAssigner):
    """Assign all records to one bucket: the base path."""

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return ""."""
        return ""


class FoldersOfValues(BucketAssigner):
    """Base class of assigners whose buckets depend only on the values of these fields.

    So a batch of columns is divided by its values: `get_bucket_id` is called with one dict of them for each part.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)


class PartitionBucketAssigner(FoldersOfValues):
    """Assign a folder for each combination of values of some fields. Raise ValueError without a field."""

    def __init__(self, columns: Sequence[str]) -> None:
        if not columns:
            raise ValueError("partitions need at least one column, got an empty list")
        super().__init__(columns)

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return `column=value/…`.

        Raise TypeError for a record without names, or a value that a name cannot contain.
        """
        return "/".join(map(folder_of, self.columns, partition_values(element, self.columns)))


class DateTimeBucketAssigner(BucketAssigner):
    """Assign buckets by formatted processing time."""

    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        self._format = format_str if "%" in format_str else strftime_pattern(format_str)
        self._timezone_id = timezone_id
        self._zone()
        self._last: tuple[int, str] | None = None

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return the formatted processing time.

        The result is cached for a second, because the records of a chunk share it.
        """
        return self.folder_at(context.current_processing_time)

    def folder_at(self, time_ms: int) -> str:
        """Return the formatted time, given in milliseconds since 1970."""
        second = time_ms // 1000
        if self._last is None or self._last[0] != second or "%f" in self._format:
            moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
            self._last = second, moment.astimezone(self._zone()).strftime(self._format)
        return self._last[1]

    def _zone(self) -> datetime.tzinfo | None:
        if self._timezone_id is None:
            return None
        try:
            return ZoneInfo(self._timezone_id)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"unknown time zone {self._timezone_id!r}; expected an IANA name such as 'UTC'") from None


class EventTimeBucketAssigner(DateTimeBucketAssigner):
    """Assign buckets by formatted event time."""

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return the formatted timestamp of the record. Raise ValueError without one."""
        if context.timestamp is None:
            raise ValueError(
                "a folder by event time needs records with timestamps: give their stream a WatermarkStrategy with a "
                "timestamp assigner"
            )
        return self.folder_at(context.timestamp)


_PATTERN_PARTS = {
    "yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "MMM": "%b", "MMMM": "%B", "dd": "%d", "DDD": "%j",
    "HH": "%H", "hh": "%I", "a": "%p", "mm": "%M", "ss": "%S", "EEE": "%a", "EEEE": "%A", "z": "%Z", "Z": "%z",
}  # fmt: skip


_PATTERN = re.compile(r"'(?P<quoted>[^']*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)", re.DOTALL)


def strftime_pattern(java_pattern: str) -> str:
    """Convert a Java date pattern to a `strftime` pattern. Raise ValueError for letters without a counterpart."""
    pattern = ""
    for part in _PATTERN.finditer(java_pattern):
        letters = part["letters"]
        if letters is None:
            pattern += part["quoted"] or part["other"] or "'"
        elif letters in _PATTERN_PARTS:
            pattern += _PATTERN_PARTS[letters]
        else:
            raise ValueError(f"date pattern {java_pattern!r}: the letters {letters!r} are not supported")
    return pattern


# Folders by the values of columns, with the names by which Spark and Hive discover partitions.

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{}\[\]^]")
"""Characters that are written as %XX. Source: Hive, FileUtils.escapePathName, which Spark and SQL of Flink follow."""


def partition_values(record: Any, columns: tuple[str, ...]) -> list[Any]:
    """Return the values of a record's fields with these names.

    Raise TypeError, KeyError or ValueError for a missing one.
    """
    if isinstance(record, (dict, Row)):
        return [record[column] for column in columns]
    if isinstance(record, (tuple, list)) and not hasattr(record, "_fields"):
        raise TypeError(f"partitions need records with field names, got {record!r:.200}")
    return list(fields_of(record, columns, has_all=False))


def folder_of(column: str, value: Any) -> str:
    """Return the name of a folder: `column=value`. Raise TypeError for a value that a name cannot contain."""
    return f"{escaped(column)}={_text(value)}"


def _text(value: Any) -> str:
    if value is None or value == "":
        return NULL_FOLDER
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return escaped(value.isoformat(" "))
    if isinstance(value, (str, int, float, Decimal, datetime.date)):
        return escaped(str(value))
    raise TypeError(
        f"the value of a partition must be a text, number, boolean, date or time, got {value!r:.200} of type "
        f"{type(value).__name__}"
    )


def escaped(text: str) -> str:
    """Return a name or value as the name of a folder has it: special characters as %XX."""
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", text)
