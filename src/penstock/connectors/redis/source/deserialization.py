"""Convert the entries of a stream to records, a batch per call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import DeserializationSchema
from penstock.common.typeinfo import TypeInformation, Types

Entries = Sequence[tuple[bytes, Sequence[bytes]]]
"""Ids, and the fields of each entry: name, value, name, value, and so on. A name may occur several times."""


class RedisStreamEntry(msgspec.Struct, frozen=True):
    """A whole entry. `entry_id` begins with the time of its addition in ms, unless its writer chose the id.

    `fields`: the last value of each field. `pairs`: all names and values, in order.
    """

    stream: str
    entry_id: str
    fields: dict[bytes, bytes]
    pairs: tuple[tuple[bytes, bytes], ...] = ()


class Deserializer(ABC):
    """Convert entries to records; None skips an entry."""

    @abstractmethod
    def deserialize(self, stream: str, entries: Entries) -> list[Any]:
        """Return the records of these entries, in order."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, or None if it is unknown."""

    def records_of(self, stream: str, entries: Entries) -> tuple[list[Any], list[int]]:
        """Return records and their timestamps (ms), in order. Raise SourceError, which names the bad entry."""
        try:
            records = self.deserialize(stream, entries)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            records = [self._record_of(stream, entry) for entry in entries]
        timestamps = [int(entry_id.partition(b"-")[0]) for entry_id, _ in entries]
        if any(record is None for record in records):
            indexes = [index for index, record in enumerate(records) if record is not None]
            return [records[index] for index in indexes], [timestamps[index] for index in indexes]
        return records, timestamps

    def _record_of(self, stream: str, entry: tuple[bytes, Sequence[bytes]]) -> Any:
        try:
            (record,) = self.deserialize(stream, [entry])
            return record
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            raise SourceError(
                f"cannot read the entry {entry[0].decode()} of the stream '{stream}': {type(error).__name__}: "
                f"{error}. Correct the deserializer, or let it return None to skip such entries"
            ) from error


class TextFields(Deserializer):
    """Make a dict from field to value, both as text in UTF-8."""

    def deserialize(self, stream: str, entries: Entries) -> list[Any]:
        return [{name.decode(): value.decode() for name, value in _unique(parts).items()} for _, parts in entries]

    def get_produced_type(self) -> TypeInformation:
        return Types.MAP(Types.STRING(), Types.STRING())


class OneField(Deserializer):
    """Convert the value of one field with a schema. An entry without the field, or with several of it, is an error."""

    def __init__(self, field: str, schema: DeserializationSchema) -> None:
        self._field = field.encode()
        self._schema = schema

    def deserialize(self, stream: str, entries: Entries) -> list[Any]:
        name = self._field
        try:
            contents = [_unique(parts, name)[name] for _, parts in entries]
        except KeyError:
            raise ValueError(f"the field '{name.decode()}' is missing") from None
        return self._schema.deserialize_batch(contents)

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()


class WholeEntry(Deserializer):
    """Convert a RedisStreamEntry with a function."""

    def __init__(self, function: Callable[[RedisStreamEntry], Any], type_info: TypeInformation | None) -> None:
        self._function = function
        self._type_info = type_info

    def deserialize(self, stream: str, entries: Entries) -> list[Any]:
        call = self._function
        return [call(_entry(stream, entry_id, parts)) for entry_id, parts in entries]

    def get_produced_type(self) -> TypeInformation | None:
        return self._type_info


def _entry(stream: str, entry_id: bytes, parts: Sequence[bytes]) -> RedisStreamEntry:
    pairs = tuple(zip(parts[::2], parts[1::2], strict=True))
    return RedisStreamEntry(stream, entry_id.decode(), dict(pairs), pairs)


def _unique(parts: Sequence[bytes], wanted: bytes | None = None) -> dict[bytes, bytes]:
    """Return the fields of an entry. Raise ValueError for a duplicate field, or only for `wanted`."""
    names = parts[::2]
    fields = dict(zip(names, parts[1::2], strict=True))
    if len(fields) < len(names):
        repeated = [name for name in fields if names.count(name) > 1 and wanted in (None, name)]
        if repeated:
            raise ValueError(
                f"the field '{repeated[0].decode(errors='replace')}' occurs {names.count(repeated[0])} times, but a "
                "record has one value: use `deserializer`, whose RedisStreamEntry has all values in `pairs`"
            )
    return fields
