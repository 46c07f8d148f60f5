"""FileSource and FileSink in a file system that only fsspec knows."""

from __future__ import annotations

import uuid

import fsspec
import pytest
from tests.unit.connectors.file_sinks import all_prepared, checkpointed, lines_below

from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink
from penstock.testing.conformance.source import check_source, read_all


@pytest.fixture
def base() -> str:
    return f"memory://files-{uuid.uuid4().hex}"


def source(path: str) -> FileSource:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), path).set_split_size(64).build()


def written(path: str) -> list[str]:
    return read_all(source(path), 1) if fsspec.filesystem("memory").exists(path) else []


def test_conformance_of_the_sink(base: str) -> None:
    """Stores of which pyarrow knows nothing would get records twice, or half a file."""
    targets: list[str] = []

    def make_sink() -> object:
        targets.append(f"{base}/{len(targets)}")
        return lines_below(targets[-1]).build()

    check_sink(make_sink, lambda: written(targets[-1]), [f"record {n}" for n in range(5)])  # type: ignore[arg-type]


@pytest.mark.parametrize("compression", ["gzip", "snappy"])
def test_files_are_closed_with_each_checkpoint(base: str, compression: str) -> None:
    """An open file cannot be continued there: its content at a checkpoint would be lost."""
    sink = lines_below(base).with_compression(compression).build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(2):
        writer.write(number, None)
        committables, items = checkpointed(writer, number)
        assert len(committables) == 1 and items == []
        sink.create_committer().commit(committables)
    writer.write("last", None)
    sink.create_committer().commit(all_prepared(writer))
    assert sorted(written(base)) == ["0", "1", "last"]


def test_conformance_of_the_source(base: str) -> None:
    """Lines would be read twice or not at all where a file is cut, or after a restart."""
    system = fsspec.filesystem("memory")
    for name in "ab":
        system.pipe(f"{base.removeprefix('memory:/')}/{name}", b"".join(b"%d a line\n" % n for n in range(30)))
    check_source(lambda: source(base))
