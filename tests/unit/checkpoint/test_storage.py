"""Checkpoint storage in a directory: Flink's layout, nothing visible before it is whole, nothing left behind."""

from __future__ import annotations

import pytest

from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.storage import DirectoryStorage, completed_in, file_system_of, read_manifest
from penstock.common.errors import CheckpointError


def manifest(number: int) -> Manifest:
    return Manifest("job", "a job", number, 0, 0, 0, [], [])


@pytest.fixture
def storage(tmp_path) -> DirectoryStorage:
    return DirectoryStorage(str(tmp_path / "job"))


def names(directory) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_the_layout(storage, tmp_path) -> None:
    """People and tools would not find what they know from Flink."""
    shared, own = storage.create("3-0-0-0-0-keyed", shared=True), storage.create("3-0-0-0-0-lists", shared=False)
    for file in (shared, own):
        file.write(b"0123")
        file.write(b"4567")
        file.close()
    storage.publish(manifest(3))
    assert names(tmp_path / "job") == ["chk-3/3-0-0-0-0-lists", "chk-3/_metadata", "shared/3-0-0-0-0-keyed"]
    assert storage.read(shared.path, 2, 4) == b"2345"
    assert storage.read(own.path, 6, 100) == b"67"
    assert read_manifest(str(tmp_path / "job" / "chk-3")) == manifest(3)
    assert read_manifest(str(tmp_path / "job" / "chk-3" / "_metadata")) == manifest(3)


def test_a_file_has_its_name_when_it_is_whole(storage, tmp_path) -> None:
    """A crash while writing would leave half a file that looks like one."""
    file = storage.create("1-x", shared=True)
    file.write(b"x")
    with pytest.raises(FileNotFoundError):
        storage.read(file.path, 0, 1)
    file.abort()
    assert names(tmp_path) == []


def test_what_is_discarded_leaves_nothing(storage, tmp_path) -> None:
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


def test_what_is_not_there_is_told(tmp_path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no checkpoint at .*nowhere"):
        read_manifest(str(tmp_path / "nowhere"))
    with pytest.raises(CheckpointError, match="can't be used"):
        file_system_of("nosuchscheme://x/y")
