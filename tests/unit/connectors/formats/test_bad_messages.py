"""Any error of reading a message is a fault of that message, except errors that would stop every other one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common import Types
from penstock.common.errors import ProgramError, SourceError
from penstock.common.functions.user_calls import Interrupted
from penstock.common.serialization import DeserializationSchema
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.connectors.kafka.source.deserialization import (
    Deserializer,
    KafkaRecordDeserializationSchema,
    OnError,
    UnreadableRecord,
)
from penstock.connectors.redis.source.deserialization import OneField
from penstock.datastream.formats.csv import CsvRowDeserializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.testing.conformance.source import read_all

NESTED = b'{"x":1,"y":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
NO_FAULTS = [KeyboardInterrupt, SystemExit, MemoryError, Interrupted, ProgramError]


class Rust(BaseException):
    """Such as a panic of a library in Rust: no Exception."""


class Failing(DeserializationSchema):
    """Raises what the message calls."""

    def __init__(self, *errors: type[BaseException]) -> None:
        self._errors = {error.__name__.encode(): error for error in errors}

    def deserialize(self, message: bytes) -> Any:
        if message in self._errors:
            raise self._errors[message]("it was asked to")
        return message.decode()


class Convert:
    """A function of a text that raises this error for `bad`."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __call__(self, text: str) -> str:
        if text == "bad":
            raise self._error("it was asked to")
        return text


def kafka_message(content: bytes) -> Any:
    methods = {
        name: (lambda value=value: value)
        for name, value in {
            "value": content,
            "key": None,
            "headers": None,
            "topic": "t",
            "partition": 0,
            "offset": 7,
            "timestamp": (1, 5),
        }.items()
    }
    return SimpleNamespace(**methods)


def values_of(on_error: OnError, schema: DeserializationSchema, contents: Sequence[bytes]) -> tuple[list[Any], int]:
    skipped: list[int] = []
    deserializer = Deserializer(
        KafkaRecordDeserializationSchema.value_only(schema), on_error, lambda: skipped.append(1)
    )
    return deserializer.values_of([kafka_message(content) for content in contents])[0], len(skipped)


def test_messages_that_nest_too_deeply_are_skipped() -> None:
    """A single message could end each job that reads it, although the job skips unreadable messages."""
    kind = Types.ROW_NAMED(["x"], [Types.MAP(Types.STRING(), Types.INT())])
    schema = JsonRowDeserializationSchema.builder().type_info(kind).ignore_parse_errors().build()
    assert schema.deserialize_batch([NESTED, b'{"x":[1]}']) == [None, None]
    with pytest.raises(ValueError, match="cannot be read as JSON"):
        JsonRowDeserializationSchema.builder().type_info(kind).build().deserialize(NESTED)


@pytest.mark.parametrize("error", [AttributeError, RecursionError, OSError, Rust])
def test_what_reading_a_message_raises_is_its_fault(error: type[BaseException]) -> None:
    """A job would end at one message in a thousand, by the kind of its error."""
    contents = [b"a", error.__name__.encode(), b"b"]
    assert values_of(OnError.SKIP, Failing(error), contents) == (["a", "b"], 1)
    emitted, counted = values_of(OnError.EMIT, Failing(error), contents)
    assert isinstance(emitted[1], UnreadableRecord) and emitted[1].record.value == contents[1] and counted == 1
    with pytest.raises(SourceError, match=r"cannot read the message at offset 7 of partition 0"):
        values_of(OnError.FAIL, Failing(error), contents)
    entries = [(b"5-0", [b"f", content]) for content in contents]
    with pytest.raises(SourceError, match="cannot read the entry 5-0 of the stream 's'"):
        OneField("f", Failing(error)).records_of("s", entries)


@pytest.mark.parametrize("error", NO_FAULTS)
@pytest.mark.parametrize("on_error", OnError)
def test_what_would_stop_any_message_skips_none(error: type[BaseException], on_error: OnError) -> None:
    """A job that is stopped, or has no memory left, would leave out messages that are as they should be."""
    contents = [b"a", error.__name__.encode()]
    with pytest.raises(error):
        values_of(on_error, Failing(error), contents)
    with pytest.raises(error):
        OneField("f", Failing(error)).records_of("s", [(b"5-0", [b"f", content]) for content in contents])


class Stopped:
    """Stands for what stops the reading of a message in its midst."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def decode(self) -> str:
        raise self._error("it was asked to")


@pytest.mark.parametrize("error", NO_FAULTS)
def test_formats_skip_none_of_these(error: type[BaseException]) -> None:
    """As above, by the formats' own settings."""
    builder = CsvRowDeserializationSchema.Builder(Types.ROW([Types.STRING()]))
    builder.set_ignore_parse_errors(True)
    with pytest.raises(error):
        builder.build().deserialize(Stopped(error))  # type: ignore[arg-type]


def read(path: Path, of_files: FileFormat) -> list[Any]:
    return read_all(FileSource.for_record_stream_format(of_files, path).build(), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [AttributeError, RecursionError, Rust])
def test_lines_of_files_are_skipped_for_the_same(tmp_path: Path, error: type[BaseException]) -> None:
    """A file could not be read to its end for one line, though its bad lines are to be skipped."""
    (tmp_path / "a.csv").write_text("n\n1\nbad\n2\n")
    skipping = StreamFormat.csv_format(types={"n": Convert(error)}, on_error="skip")
    assert read(tmp_path / "a.csv", skipping) == [{"n": "1"}, {"n": "2"}]
    (tmp_path / "a.json").write_bytes(b"1\n" + b"[" * 20_000 + b"]" * 20_000 + b"\n2\n")
    assert read(tmp_path / "a.json", StreamFormat.json_lines_format(on_error="skip")) == [1, 2]
    with pytest.raises(SourceError, match=r"a\.json, line 2"):
        read(tmp_path / "a.json", StreamFormat.json_lines_format())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_lines_of_files_are_not_skipped_for_what_would_stop_any(tmp_path: Path, error: type[BaseException]) -> None:
    """Lines would be missing that are as they should be."""
    (tmp_path / "a.csv").write_text("n\n1\nbad\n2\n")
    with pytest.raises(error):
        read(tmp_path / "a.csv", StreamFormat.csv_format(types={"n": Convert(error)}, on_error="skip"))


@dataclasses.dataclass
class Price:
    amount: Decimal


def test_a_line_with_a_literal_of_python_is_named(tmp_path: Path) -> None:
    """A file would be read with a number where its line has no number."""
    (tmp_path / "a.json").write_text('{"amount": "1000"}\n{"amount": "1_000"}\n')
    with pytest.raises(SourceError, match=r"(?s)a\.json, line 2.*decimal"):
        read(tmp_path / "a.json", StreamFormat.json_lines_format(Price))
