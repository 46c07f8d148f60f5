"""The interface of formats: decoders from messages to columns, and encoders from columns to messages.

A format is composed by a connector: `'format' = 'json'`, or `'value.format' = 'json'`, with the format's options behind
its name: `'json.ignore-parse-errors'`, `'value.json.ignore-parse-errors'`. Source: Flink docs, "Formats".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy
import pyarrow

from penstock.common.config_options import ConfigOption
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED

Places = numpy.ndarray[Any, numpy.dtype[numpy.int64]]
_LEAST = 8
"""Messages that are read one by one: of more, most are usual if one is not."""


class UnreadableMessageError(ValueError):
    """The message at `position` is not one of the format, for this reason."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


class Decoded(NamedTuple):
    """Rows of messages. `places`: the message of each row; None: each message gave one row."""

    batch: pyarrow.RecordBatch
    places: Places | None = None


class MessageDecoder(ABC):
    """Decodes messages to columns: all at once if they are usual, otherwise one by one.

    `schema`: the columns. `ignores_errors`: skip unreadable messages.
    """

    name: ClassVar[str]
    remedy: ClassVar[str] = ""
    """The setting by which unreadable messages are left out; empty: there is none."""
    reads_null: ClassVar[bool] = False
    """Whether a message without content has a row, too. Otherwise there is no such message among those to decode."""

    def __init__(self, schema: pyarrow.Schema, *, ignores_errors: bool) -> None:
        self.schema = schema
        self.ignores_errors = ignores_errors

    @abstractmethod
    def usual(self, messages: Sequence[bytes]) -> pyarrow.RecordBatch:
        """Return one row for each message. Raises any error if a message is unusual."""

    @abstractmethod
    def single(self, message: bytes) -> dict[str, Any] | None:
        """Return the values of a message by column; None: it has no row. Raises any error for an unreadable one."""

    def decode(self, messages: Sequence[bytes], skipped: Callable[[], None]) -> Decoded:
        """Return the rows of messages, in order. `skipped` is called for each message that is ignored.

        Raises UnreadableMessageError.
        """
        parts: list[pyarrow.RecordBatch] = []
        places: list[Places] = []
        self._decode(messages, 0, parts, places, skipped=skipped)
        if not parts:
            return Decoded(pyarrow.RecordBatch.from_pylist([], schema=self.schema), numpy.zeros(0, numpy.int64))
        whole = parts[0] if len(parts) == 1 else pyarrow.concat_batches(parts)
        return Decoded(whole, None if len(whole) == len(messages) else numpy.concatenate(places))

    def _decode(
        self,
        messages: Sequence[bytes],
        first: int,
        parts: list[pyarrow.RecordBatch],
        places: list[Places],
        *,
        skipped: Callable[[], None],
    ) -> None:
        if not messages:
            return
        try:
            parts.append(self.usual(messages))
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            if len(messages) > _LEAST:
                half = len(messages) // 2
                self._decode(messages[:half], first, parts, places, skipped=skipped)
                self._decode(messages[half:], first + half, parts, places, skipped=skipped)
                return
            found = self._singly(messages, first, skipped)
            if found:
                parts.append(pyarrow.RecordBatch.from_pylist(list(found.values()), schema=self.schema))
                places.append(numpy.fromiter(found, numpy.int64))
            return
        places.append(numpy.arange(first, first + len(messages), dtype=numpy.int64))

    def _singly(self, messages: Sequence[bytes], first: int, skipped: Callable[[], None]) -> dict[int, dict[str, Any]]:
        found = {}
        for place, message in enumerate(messages, first):
            try:
                values = self.single(message)
                if values is not None:
                    pyarrow.RecordBatch.from_pylist([values], schema=self.schema)
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                if not self.ignores_errors:
                    raise UnreadableMessageError(place, f"{message!r:.200}: {error}") from error
                skipped()
                continue
            if values is not None:
                found[place] = values
        return found


Encoder = Callable[[pyarrow.RecordBatch], Sequence[bytes]]
"""From rows to their messages, in order. Raises ValueError for a value that the format does not have."""


class MessageFormat(ABC):
    """A format of messages with its options. Pickled with the table's source or sink, so it holds only settings.

    `values`: of `options`, by their keys. Raises ValueError for options that exclude each other.
    """

    name: ClassVar[str]
    options: ClassVar[tuple[ConfigOption[Any], ...]] = ()
    """Without the name of the format in front."""
    reads_whole: ClassVar[bool] = False
    """Whether messages can only be decoded to all columns of a table, because they have no names."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)
        self.check()

    def get(self, option: ConfigOption[Any]) -> Any:
        """Return the value of one of the format's options."""
        return self._values[option.key]

    def check(self) -> None:
        """Raise ValueError for options that exclude each other."""

    @abstractmethod
    def decoder(self, schema: pyarrow.Schema) -> MessageDecoder:
        """Return a decoder to these columns. Raises ValueError for a type that the format does not have."""

    @abstractmethod
    def encoder(self, schema: pyarrow.Schema) -> Encoder:
        """Return an encoder of these columns. Raises ValueError for a type that the format does not have."""


_FORMATS = {
    "avro": "avro_format:AvroFormat",
    "csv": "csv_format:CsvFormat",
    "json": "json_format:JsonFormat",
    "raw": "raw_format:RawFormat",
}
"""Format -> module of this package and class."""


def format_names() -> list[str]:
    """Return the names of all formats of messages."""
    return sorted(_FORMATS)


def format_class(name: str) -> type[MessageFormat] | None:
    """Return the class of a format; None if there is none of that name."""
    if name not in _FORMATS:
        return None
    module, _, attribute = _FORMATS[name].partition(":")
    found: type[MessageFormat] = getattr(import_module(f"penstock.table.connectors.formats.{module}"), attribute)
    return found
