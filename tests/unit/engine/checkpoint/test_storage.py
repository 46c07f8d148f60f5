"""Checkpoint storage in a directory: Flink's layout, atomic visibility, no leftovers."""

from __future__ import annotations

import msgspec
import pytest

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.latest import latest_of
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart
from penstock.engine.checkpoint.storage import DirectoryStorage, completed_in, file_system_of, read_manifest
from penstock.engine.state.handles import KeyedFile, ListsFile, OperatorState


def manifest(number: int) -> Manifest:
    return Manifest("job", "a job", number, 0, 0, 0, [], [])


@pytest.fixture
def storage(tmp_path) -> DirectoryStorage:
    return DirectoryStorage(str(tmp_path / "job"))


def names(directory) -> list[str]:
    found = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    return [name for name in found if "record/" not in name]


def test_the_layout(storage, tmp_path) -> None:
    """Users and tools would not find the layout that they know from Flink."""
    shared, own = storage.create("3-0-0-0-0-keyed", shared=True), storage.create("3-0-0-0-0-lists", shared=False)
    for file in (shared, own):
        file.write(b"0123")
        file.write(b"4567")
        file.close()
    storage.publish(manifest(3))
    assert names(tmp_path / "job") == ["chk-3/3-0-0-0-0-lists", "chk-3/_metadata", "shared/3-0-0-0-0-keyed"]
    assert storage.read(shared.path, 2, 4) == b"2345"
    assert storage.read(own.path, 6, 100) == b"67"
    assert read_manifest(str(tmp_path / "job" / "chk-3")) == msgspec.structs.replace(manifest(3), record_number=1)
    assert read_manifest(str(tmp_path / "job" / "chk-3" / "_metadata")).checkpoint_id == 3


def test_a_file_has_its_name_when_it_is_whole(storage, tmp_path) -> None:
    """A crash while writing would leave half a file that looks like one."""
    file = storage.create("1-x", shared=True)
    file.write(b"x")
    with pytest.raises(FileNotFoundError):
        storage.read(file.path, 0, 1)
    file.abort()
    assert names(tmp_path) == []


def test_what_is_discarded_leaves_nothing(storage, tmp_path) -> None:
    """The store would fill up."""
    file = storage.create("1-x", shared=False)
    file.write(b"x")
    file.close()
    storage.publish(manifest(1))
    storage.discard(manifest(1))
    storage.remove([file.path, "shared/never-there"])
    assert names(tmp_path) == []
    assert not (tmp_path / "job" / "chk-1").exists()


def test_completed_checkpoints_are_those_with_a_manifest(storage, tmp_path) -> None:
    """A job would be restored from a checkpoint that never became one."""
    assert completed_in(str(tmp_path / "job")) == []
    for number in (2, 10):
        storage.publish(manifest(number))
    unfinished = storage.create("11-x", shared=False)
    unfinished.close()
    assert [number for number, _ in completed_in(str(tmp_path / "job"))] == [2, 10]


def test_the_latest_is_the_newest_of_its_name(tmp_path) -> None:
    """A job started from an older one would commit a second time what came after it."""
    for job, number, completed_ms in [("a", 1, 5), ("a", 2, 9), ("a", 3, 9), ("b", 7, 8)]:
        complete = msgspec.structs.replace(manifest(number), completed_ms=completed_ms)
        DirectoryStorage(str(tmp_path / job)).publish(complete)
    name = manifest(1).job_name
    assert latest_of(str(tmp_path), name).path == str(tmp_path / "a" / "chk-3"), (
        "of two in one millisecond, the later one"
    )
    with pytest.raises(CheckpointError, match=r"of a job named 'another' below "):
        latest_of(str(tmp_path), "another")


def test_a_sweep_leaves_the_directory_itself(storage, tmp_path) -> None:
    """A locked directory would be created again without its lock, and removed as one of a dead process."""
    file = storage.create("3-0-0-0-0-keyed", shared=True)
    file.close()
    before = (tmp_path / "job").stat().st_ino
    storage.sweep([])
    assert names(tmp_path / "job") == []
    assert (tmp_path / "job").stat().st_ino == before


def test_a_sweep_leaves_what_checkpoints_need(storage, tmp_path) -> None:
    """Files of killed workers would fill the store, or a needed file would be deleted."""
    for name, shared in (("1-a", True), ("1-b", False), ("2-c", True), ("2-d", False), ("3-e", True)):
        file = storage.create(name, shared)
        file.write(b"x")
        file.close()
    storage.create("3-f", shared=True)
    storage.publish(manifest(1))
    part = SubtaskPart(0, OperatorState([KeyedFile("shared/2-c", 1, [], [])], ListsFile("chk-2/2-d", 1, [])))
    kept = Manifest("job", "a job", 2, 0, 0, 0, [OperatorPart("op", "op", 1, 128, [part])], [])
    storage.publish(kept)
    storage.sweep([kept])
    assert names(tmp_path / "job") == ["chk-2/2-d", "chk-2/_metadata", "shared/2-c"]
    assert not (tmp_path / "job" / "chk-1").exists()
    storage.delete()
    assert not (tmp_path / "job").exists()
    again = storage.create("4-x", shared=True)
    again.close()
    assert names(tmp_path / "job") == ["shared/4-x"]


def test_a_directory_of_checkpoints_is_no_checkpoint(storage, tmp_path) -> None:
    """A user who names the directory of savepoints, or of a job, would have to list its content."""
    for number in (1, 2):
        storage.publish(manifest(number))
    (tmp_path / "job" / "shared").mkdir(exist_ok=True)
    with pytest.raises(CheckpointError, match=r"is missing\. The directory holds chk-1, chk-2: name one of them"):
        read_manifest(str(tmp_path / "job"))
    with pytest.raises(CheckpointError, match=r"is missing$"):
        read_manifest(str(tmp_path))


def test_what_is_not_there_is_told(tmp_path) -> None:
    """A mistyped path would end in an OSError of a library."""
    with pytest.raises(CheckpointError, match=r"there is no checkpoint at .*nowhere"):
        read_manifest(str(tmp_path / "nowhere"))
    with pytest.raises(CheckpointError, match="cannot use"):
        file_system_of("nosuchscheme://x/y")
    # Of a scheme that fsspec knows, and for which a package is missing.
    with pytest.raises(
        CheckpointError, match=r"no file system is installed for dropbox://\. pyarrow: .* fsspec: .*dropbox"
    ):
        file_system_of("dropbox://x/y")
