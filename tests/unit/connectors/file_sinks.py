"""What tests of file sinks share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.api.sink import SinkWriter
from penstock.common.serialization import Encoder
from penstock.connectors.files.formats.streams import reading
from penstock.connectors.files.sink import BucketAssigner, FileSink
from penstock.connectors.files.sink.sink import RowFormatBuilder
from penstock.connectors.files.source.listing import list_files


def lines_below(path: str | Path) -> RowFormatBuilder:
    """A builder of a sink of lines in one bucket."""
    builder = FileSink.for_row_format(path, Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def all_prepared(writer: SinkWriter[Any]) -> list[Any]:
    """All that was written, as for a savepoint."""
    writer.prepare_savepoint()
    writer.flush(False)
    return writer.prepare_commit()


def checkpointed(writer: SinkWriter[Any], number: int = 1) -> tuple[list[Any], list[Any]]:
    """Return the checkpoint of a writer: committables, and its state."""
    writer.flush(False)
    return writer.prepare_commit(), writer.snapshot_state(number)


def visible_files(path: Path) -> list[Path]:
    """Return the files that a reader of the directory finds."""
    return [Path(file.path) for file in list_files([str(path)])] if path.exists() else []


def visible_lines(path: Path) -> list[str]:
    """Return the content that a reader of the directory reads."""
    lines = []
    for file in visible_files(path):
        with reading(str(file)) as stream:
            lines += b"".join(iter(lambda stream=stream: stream.read(1 << 16), b"")).decode().splitlines()
    return lines


def hidden_files(path: Path) -> list[Path]:
    """Return the other files of the directory."""
    found = [file for file in path.rglob("*") if file.is_file()]
    return sorted(set(found) - set(visible_files(path)))
