"""FileSink with compression: files that are whole wherever they end, and continue like others."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.connectors.file_sinks import (
    all_prepared,
    checkpointed,
    hidden_files,
    lines_below,
    visible_files,
    visible_lines,
)

from penstock.common import Encoder
from penstock.common.errors import SourceError
from penstock.connectors.files.formats.compression import CODECS, SnappyBlocks
from penstock.connectors.files.formats.streams import reading
from penstock.connectors.files.sink import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink

each_codec = pytest.mark.parametrize("compression", CODECS)


def sink_of(path: Path, compression: str | None, suffix: str = ".txt") -> FileSink:
    builder = lines_below(path).with_output_file_config(OutputFileConfig("part", suffix))
    return (builder if compression is None else builder.with_compression(compression)).build()


@each_codec
def test_conformance(tmp_path: Path, compression: str) -> None:
    """Records would be lost or doubled where the same file without a codec has each once."""
    targets: list[Path] = []

    def make_sink() -> FileSink:
        targets.append(tmp_path / str(len(targets)))
        return sink_of(targets[-1], compression)

    check_sink(make_sink, lambda: visible_lines(targets[-1]), [f"record {n}" for n in range(5)])


@each_codec
def test_a_restart_goes_on_behind_the_checkpoint(tmp_path: Path, compression: str) -> None:
    """A file that is cut within a member could not be read at all, or records be there twice."""
    sink = sink_of(tmp_path, compression)
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(3):
        writer.write_chunk([f"{number}-{line:09d}" for line in range(40_000)], None)
        committables, items = checkpointed(writer, number)
        assert committables == []
    writer.write_chunk(["lost"] * 400_000, None)
    writer.flush(False)
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    successor.write("after", None)
    sink.create_committer().commit(all_prepared(successor))
    (file,) = visible_files(tmp_path)
    assert file.name.endswith(f".txt{CODECS[compression].suffix}")
    assert visible_lines(tmp_path) == [f"{n}-{line:09d}" for n in range(3) for line in range(40_000)] + ["after"]
    writer.close()
    assert hidden_files(tmp_path) == []


@pytest.mark.parametrize(
    ("compression", "decompress"),
    [
        ("gzip", gzip.decompress),
        ("bzip2", bz2.decompress),
        ("xz", lzma.decompress),
        ("zstd", lambda data: pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()),
    ],
)
def test_others_read_it(tmp_path: Path, compression: str, decompress: Callable[[bytes], bytes]) -> None:
    """Only penstock could read what it has written."""
    sink = sink_of(tmp_path, compression)
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(3):
        writer.write(number, None)
        checkpointed(writer, number)
    sink.create_committer().commit(all_prepared(writer))
    (file,) = visible_files(tmp_path)
    assert decompress(file.read_bytes()) == b"0\n1\n2\n"


def test_files_are_as_large_as_is_said(tmp_path: Path) -> None:
    """A file of 128 MiB would be one of 12, since records were counted before they were compressed."""
    policy = RollingPolicy.default_rolling_policy(part_size=50_000)
    sink = lines_below(tmp_path).with_rolling_policy(policy).with_compression("gzip").build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(20):
        writer.write_chunk([f"{number} the same again and again"] * 1_000, None)
        writer.flush(False)
    sink.create_committer().commit(all_prepared(writer))
    assert len(visible_lines(tmp_path)) == 20_000
    assert len(visible_files(tmp_path)) == 1, "600 kB of records, 10 kB of a file"


@pytest.mark.parametrize(("former", "now"), [(None, "gzip"), ("gzip", "zstd"), ("zstd", None)])
@pytest.mark.parametrize("compacts", [False, True])
def test_another_codec_from_a_checkpoint_on(
    tmp_path: Path, former: str | None, now: str | None, compacts: bool
) -> None:
    """A file would have two codecs, and end for its reader at the second."""
    writer = sink_of(tmp_path, former).create_writer(SimpleSinkContext())
    writer.write("before", None)
    _, items = checkpointed(writer)
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
    builder = lines_below(tmp_path).with_output_file_config(OutputFileConfig("part", ".txt"))
    if now is not None:
        builder.with_compression(now)
    if compacts:
        builder.enable_compact(strategy, FileCompactor.concat_file_compactor())
    sink = builder.build()
    successor = sink.restore_writer(SimpleSinkContext(attempt="attempt-2"), items)
    successor.write("after", None)
    sink.create_committer().commit(all_prepared(successor))
    assert sorted(visible_lines(tmp_path)) == ["after", "before"]
    assert len(visible_files(tmp_path)) == 2


@each_codec
def test_compressed_files_are_compacted(tmp_path: Path, compression: str) -> None:
    """A bucket of compressed logs would fill with small files."""
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(9).build()
    builder = lines_below(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).with_compression(compression)
    sink = builder.build()
    writer = sink.create_writer(SimpleSinkContext())
    for number in range(3):
        writer.write(number, None)
        checkpointed(writer, number)
    sink.create_committer().commit(all_prepared(writer))
    assert visible_lines(tmp_path) == ["0", "1", "2"] and len(visible_files(tmp_path)) == 1


def test_mistakes_are_refused_when_the_sink_is_made(tmp_path: Path) -> None:
    """They would be found by the first reader of the files."""
    with pytest.raises(ValueError, match=r"compression must be one of gzip, zstd, snappy, .*, got 'rar'"):
        lines_below(tmp_path).with_compression("rar")
    builder = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).with_compression("gzip")
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
    with pytest.raises(ValueError, match="must not have a delimiter"):
        builder.enable_compact(strategy, FileCompactor.concat_file_compactor(b"\n")).build()


def chunk_of(data: bytes) -> bytes:
    packed = pa.Codec("snappy").compress(data, asbytes=True)
    return len(packed).to_bytes(4) + packed


def test_snappy_of_hadoops_writers(tmp_path: Path) -> None:
    """Hadoop makes several chunks of a block, and an empty block at the end of some files: the rest would be lost."""
    path = tmp_path / "a.snappy"
    several = (7).to_bytes(4) + chunk_of(b"ab\n") + chunk_of(b"cde\n")
    path.write_bytes(several + (2).to_bytes(4) + chunk_of(b"f\n") + (0).to_bytes(4))
    with reading(str(path)) as stream:
        assert b"".join(iter(lambda: stream.read(2), b"")) == b"ab\ncde\nf\n"
    with reading(str(path), offset=5) as stream:
        assert stream.read(100) == b"e\n"


def test_snappy_that_is_damaged_is_named(tmp_path: Path) -> None:
    """The end of a truncated file would be taken for that of the data, or a flipped bit ask for gigabytes."""
    path, whole = tmp_path / "a.snappy", CODECS["snappy"].compress(b"line\n" * 1000)
    cut_off = [whole[:end] for end in range(1, len(whole))]
    long = [b"\xff" * 3 + whole[3:], whole[:4] + b"\xff" * 4 + whole[8:], whole[:8] + b"\xff" * 5 + whole[13:]]
    for data in [*cut_off[::7], *long]:
        path.write_bytes(data)
        with pytest.raises(SourceError, match=r"cannot read \S*/a\.snappy"), reading(str(path)) as stream:
            assert len(stream.read(1 << 20)) <= 5_000
            stream.read(1)


def test_snappys_own_framing_is_refused_by_name(tmp_path: Path) -> None:
    """The message would say that the file is damaged."""
    path = tmp_path / "a.sz"
    path.write_bytes(b"\xff\x06\x00\x00sNaPpY\x01\x05\x00\x00")
    with pytest.raises(SourceError, match="snappy's framing format"), reading(str(path)) as stream:
        stream.read(1)


def test_chunks_have_room_in_hadoops_buffers() -> None:
    """Spark and Flink would fail at a file with large members."""
    whole = CODECS["snappy"].compress(bytes(range(256)) * 5_000)
    lengths, at = [], 0
    while at < len(whole):
        raw, packed = (int.from_bytes(whole[at + i : at + i + 4]) for i in (0, 4))
        lengths.append(max(raw, packed))
        at += 8 + packed
    assert len(lengths) == 10 and max(lengths) <= 256 * 1024 - (256 * 1024 // 6 + 32)
    assert SnappyBlocks(pa.BufferReader(whole)).read(3) == b"\x00\x01\x02"
