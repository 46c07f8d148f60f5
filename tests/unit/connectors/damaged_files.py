"""Files of all formats, damaged at random: cut, with a bit flipped, or with a block of zeros."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.type_pb2 import EnumValue

from penstock.common import Row, Types
from penstock.common.errors import SourceError
from penstock.connectors.files.formats.avro_format import AvroWriterFactory
from penstock.connectors.files.formats.compression import CODECS
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.formats.orc_format import OrcWriterFactory
from penstock.connectors.files.formats.parquet_format import ParquetWriterFactory
from penstock.connectors.files.formats.protobuf_format import ProtobufEncoder, ProtobufFormat
from penstock.connectors.files.split import FoundFile, whole
from penstock.connectors.formats.protobuf_schema import ProtobufSchema
from penstock.datastream.connectors.file_system import BulkFormat, StreamFormat
from penstock.datastream.formats.avro import AvroSchema

NAMES = ["number", "text", "half", "flag"]
TYPES = [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()]
RECORDS = [{"number": i, "text": f"text {i % 37}", "half": i / 2, "flag": i % 3 == 0} for i in range(300)]
_ROW_TYPE = Types.ROW_NAMED(NAMES, TYPES)
_AVRO = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "Line",
            "fields": [
                {"name": name, "type": kind}
                for name, kind in zip(NAMES, ("long", "string", "double", "boolean"), strict=True)
            ],
        }
    )
)


class Sample(NamedTuple):
    """A whole file. `is_verified`: whether its checksums tell each change of its content.

    zstd and lz4 have checksums only if their writer wants them, and pyarrow writes none.
    """

    data: bytes
    format: FileFormat
    is_verified: bool = False


def _avro(codec: str) -> Sample:
    return Sample(_written(AvroWriterFactory(_AVRO, codec=codec)), BulkFormat.avro_format())


def _parquet(codec: str | None) -> Sample:
    return Sample(_written(ParquetWriterFactory(_ROW_TYPE, compression=codec)), BulkFormat.parquet_format())


def _orc(codec: str) -> Sample:
    return Sample(_written(OrcWriterFactory(_ROW_TYPE, compression=codec)), BulkFormat.orc_format())


def _csv() -> Sample:
    rows = [NAMES, *(map(str, record.values()) for record in RECORDS)]
    data = "\n".join(map(",".join, rows)).encode()
    return Sample(data, StreamFormat.csv_format(types={"number": int, "half": float}))


def _messages() -> Sample:
    schema = ProtobufSchema.of(EnumValue)
    encoder = ProtobufEncoder(schema)
    rows = [Row(name=record["text"], number=record["number"], options=[]) for record in RECORDS]
    return Sample(b"".join(map(encoder.encode, rows)), ProtobufFormat(schema))


def _lines(codec: str | None) -> Sample:
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS).encode()
    data = lines if codec is None else CODECS[codec].compress(lines)
    return Sample(data, StreamFormat.json_lines_format(), is_verified=codec in ("gzip", "bzip2", "xz"))


SAMPLES: dict[str, Callable[[], Sample]] = {
    **{f"{codec}.avro": partial(_avro, codec) for codec in ("null", "deflate", "bzip2", "xz", "snappy", "zstandard")},
    **{f"{codec}.parquet": partial(_parquet, codec) for codec in (None, "snappy", "gzip", "zstd")},
    **{f"{codec}.orc": partial(_orc, codec) for codec in ("uncompressed", "zlib", "snappy", "zstd")},
    "fields.csv": _csv,
    "messages.pb": _messages,
    "lines.json": partial(_lines, None),
    **{f"lines.json{codec.suffix}": partial(_lines, name) for name, codec in CODECS.items()},
}
"""By name: what makes one file of each format, codec and archive."""


def _written(factory: Any) -> bytes:
    stream = io.BytesIO()
    writer = factory.create(stream)
    for record in RECORDS:
        writer.add_element(record)
    writer.finish()
    return stream.getvalue()


def damaged(data: bytes, choice: random.Random, only_cut: bool = False) -> bytes:
    """Return the file cut, with a bit flipped, or with zeros in place of some bytes; always other than it was."""
    at = choice.randrange(len(data))
    kind = 0 if only_cut else choice.randrange(3)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << choice.randrange(8)]) + data[at + 1 :]
    zeros = data[:at] + bytes(len(data[at : at + 64])) + data[at + 64 :]
    return zeros if zeros != data else damaged(data, choice)


def read(path: Path, file_format: FileFormat) -> list[Any]:
    """All records of a file, after the check that a job makes when it is submitted."""
    file = FoundFile(str(path), path.stat().st_size)
    file_format.check(file)
    return [value for chunk in file_format.read(whole(file), lambda count: None) for value in chunk.values]


def fault(path: Path, sample: Sample, whole_records: list[Any]) -> str:
    """Return the fault of reading a damaged file, or an empty text."""
    try:
        found = read(path, sample.format)
    except SourceError as error:
        return "" if path.name in str(error) else f"the error names no file: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "other records" if sample.is_verified and found != whole_records else ""
