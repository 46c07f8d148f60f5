"""Power fails after a checkpoint was published, or a file was committed: nothing of it may be missing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.connectors.file_sinks import all_prepared, checkpointed
from tests.unit.power_failure import ForgetfulDisk

from penstock.common.serialization import Encoder
from penstock.connectors.files.sink import BucketAssigner, FileSink
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.storage import DirectoryStorage, SavepointStorage, read_manifest
from penstock.testing.conformance.sink import SimpleSinkContext

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to read what is synced")
MANIFEST = Manifest("job", "a job", 3, 0, 0, 0, [], [])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> ForgetfulDisk:
    return ForgetfulDisk(root, monkeypatch)


def test_a_published_checkpoint_has_all_of_its_files(disk: ForgetfulDisk, root: Path, tmp_path: Path) -> None:
    """A restored job would read files that are empty, or find none."""
    storage = DirectoryStorage(str(root / "checkpoints" / "job"))
    shared, own = storage.create("3-keyed", shared=True), storage.create("3-lists", shared=False)
    for file in (shared, own):
        file.write(file.path.encode())
        file.close()
    storage.publish(MANIFEST)

    left = DirectoryStorage(str(disk.lose_power(tmp_path / "left") / "checkpoints" / "job"))
    for file in (shared, own):
        assert left.read(file.path, 0, 100) == file.path.encode()
    assert read_manifest(f"{left.directory}/chk-3") == msgspec.structs.replace(MANIFEST, record_number=1)


def test_a_published_savepoint_has_all_of_its_files(disk: ForgetfulDisk, root: Path, tmp_path: Path) -> None:
    """A savepoint that was reported to its user would be missing."""
    storage = SavepointStorage(str(root / "savepoints" / "sp-1"))
    file = storage.create("0-keyed", shared=True)
    file.write(b"state")
    file.close()
    storage.publish(MANIFEST)

    left = SavepointStorage(str(disk.lose_power(tmp_path / "left") / "savepoints" / "sp-1"))
    assert left.read(file.path, 0, 100) == b"state"
    assert read_manifest(left.directory) == MANIFEST


def sink_below(root: Path) -> FileSink:
    builder = FileSink.for_row_format(root / "out", Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy/MM")).build()


def test_part_files_are_whole_before_a_checkpoint_names_them(disk: ForgetfulDisk, root: Path, tmp_path: Path) -> None:
    """A restored job would fail permanently: the file that it must commit is shorter than before."""
    writer = sink_below(root).create_writer(SimpleSinkContext())
    writer.write_chunk(list(range(1000)), None)
    (committable,) = all_prepared(writer)

    left = disk.lose_power(tmp_path / "left")
    pending = left / Path(committable.pending_path).relative_to(root)
    assert pending.stat().st_size == committable.size
    assert pending.read_text().splitlines() == [str(n) for n in range(1000)]


def test_a_file_in_progress_has_what_a_checkpoint_holds_of_it(disk: ForgetfulDisk, root: Path, tmp_path: Path) -> None:
    """A restored job would fail permanently: the file that it continues is shorter than before, or lost its name."""
    writer = sink_below(root).create_writer(SimpleSinkContext())
    for number in (1, 2):
        writer.write(number, None)
        _, (item,) = checkpointed(writer, number)
        left = disk.lose_power(tmp_path / f"left-{number}")
        hidden = left / Path(item.file.hidden_path).relative_to(root)
        assert hidden.read_text().splitlines() == ["1", "2"][:number]


def test_committed_files_keep_their_names(disk: ForgetfulDisk, root: Path, tmp_path: Path) -> None:
    """Output of a subsumed checkpoint would stay hidden forever, as it is not committed again."""
    sink = sink_below(root)
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk(["a", "b"], None)
    committables = all_prepared(writer)
    sink.create_committer().commit(committables)

    left = disk.lose_power(tmp_path / "left")
    final = left / Path(committables[0].final_path).relative_to(root)
    assert final.read_text() == "a\nb\n"
    assert [path for path in left.rglob(".*") if path.is_file()] == []


def test_a_commit_that_is_repeated_is_synced(disk: ForgetfulDisk, root: Path) -> None:
    """A file renamed just before a crash would have its name only by luck."""
    sink = sink_below(root)
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk(["a"], None)
    committables = all_prepared(writer)
    sink.create_committer().commit(committables)
    before = disk.syncs
    sink.create_committer().commit_again(committables)
    assert disk.syncs == before + 1
