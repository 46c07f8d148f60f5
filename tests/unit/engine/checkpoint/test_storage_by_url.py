"""Checkpoint storage behind a URL: a job's life with it, from the first file to the last sweep."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import ClassVar

import fsspec
import msgspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.latest import latest_of
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, is_relative, with_absolute_paths
from penstock.engine.checkpoint.storage import (
    DirectoryStorage,
    SavepointStorage,
    absolute,
    completed_in,
    files_directory,
    read_manifest,
)
from penstock.engine.state.handles import KeyedFile, OperatorState


@pytest.fixture(params=["path", "file", "file, short", "fsspec"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory of checkpoints. The last one is a file system that only fsspec knows."""
    kinds = {
        "path": str(tmp_path),
        "file": f"file://{tmp_path}",
        "file, short": f"file:{tmp_path}",
        "fsspec": f"memory://checkpoints-{uuid.uuid4().hex}",
    }
    return kinds[request.param]


def checkpoint(storage: DirectoryStorage, number: int, content: bytes) -> Manifest:
    """Publish a checkpoint with one file."""
    file = storage.create(f"{number}-0-0-0-0-keyed", shared=True)
    file.write(content)
    file.close()
    part = SubtaskPart(0, OperatorState([KeyedFile(file.path, len(content), [], [])]))
    operators = [OperatorPart("op", "op", 1, 128, [part])]
    manifest = Manifest("job", "a job", number, 0, 0, number, operators, [])
    storage.publish(manifest)
    return manifest


def content_of(manifest: Manifest, storage: DirectoryStorage) -> bytes:
    (file,) = manifest.operators[0].subtasks[0].state.keyed
    return storage.read(file.path, 0, file.bytes)


def test_from_the_first_checkpoint_to_the_last_sweep(base: str) -> None:
    """A job could not continue from checkpoints in an object store, or would lose them in a sweep."""
    directory = f"{base}/job"
    storage = DirectoryStorage(directory)
    first, second = (checkpoint(storage, number, b"state %d" % number) for number in (1, 2))
    assert [number for number, _ in completed_in(directory)] == [1, 2]
    storage.create("3-0-0-0-0-keyed", shared=True).write(b"its worker was killed")
    storage.discard(first)
    storage.sweep([second])
    assert [number for number, _ in completed_in(directory)] == [2]
    assert content_of(second, storage) == b"state 2"
    with pytest.raises(FileNotFoundError):
        content_of(first, storage)

    latest = latest_of(base, "a job").path
    found = read_manifest(latest)
    assert found == msgspec.structs.replace(second, record_number=2)
    elsewhere = with_absolute_paths(found, files_directory(latest, found))
    assert not any(map(is_relative, elsewhere.files()))
    assert content_of(elsewhere, DirectoryStorage(f"{base}/another-job")) == b"state 2"

    storage.remove(second.files())
    Recording.removed.clear()
    storage.sweep([])
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        latest_of(base, "a job")


def test_a_savepoint(base: str) -> None:
    """The latest checkpoint behind a URL would be reported as a path that no job can start from."""
    storage = SavepointStorage(absolute(f"{base}/savepoint/"))
    file = storage.create("a", shared=False)
    file.write(b"x")
    file.close()
    path = storage.publish(msgspec.structs.replace(Manifest("job", "a job", 1, 0, 0, 0, [], []), savepoint=True))
    assert read_manifest(path).savepoint
    assert SavepointStorage(files_directory(path, read_manifest(path))).read("a", 0, 9) == b"x"
    storage.remove()
    with pytest.raises(CheckpointError):
        read_manifest(path)


class Recording(MemoryFileSystem):
    """A file system in memory that notes what is removed."""

    protocol = "recording"
    removed: ClassVar[list[str]] = []

    def rm(self, path, *arguments, **options):
        self.removed.append(path)
        super().rm(path, *arguments, **options)


def test_a_checkpoint_is_deleted_from_its_manifest_down() -> None:
    """A checkpoint that is half deleted when the driver dies would be restored by the next run, which can't."""
    fsspec.register_implementation("recording", Recording, clobber=True)
    storage = DirectoryStorage(f"recording://{uuid.uuid4().hex}")
    for number in (1, 2):
        # Beside its manifest lies what is its own.
        own = storage.create(f"{number}-own-keyed", shared=False)
        own.write(b"own")
        own.close()
        checkpoint(storage, number, b"content")
    Recording.removed.clear()
    storage.sweep([])
    names = [path.rpartition("/")[2] for path in Recording.removed if path.rpartition("/")[2]]
    assert names[:2] == ["00000001", "00000002"], "first of all they are off the record"
    names = names[2:]
    assert names[:2] == ["_metadata", "_metadata"]
    assert sorted(name for name in names if name.endswith("keyed")) == [
        "1-0-0-0-0-keyed",
        "1-own-keyed",
        "2-0-0-0-0-keyed",
        "2-own-keyed",
    ]


def test_so_is_a_savepoint() -> None:
    """A user would start from half a savepoint, whose driver has died while it removed it."""
    fsspec.register_implementation("recording", Recording, clobber=True)
    storage = SavepointStorage(f"recording://{uuid.uuid4().hex}")
    file = storage.create("a", shared=False)
    file.write(b"x")
    file.close()
    storage.publish(msgspec.structs.replace(Manifest("job", "a job", 1, 0, 0, 0, [], []), savepoint=True))
    Recording.removed.clear()
    storage.remove()
    assert Recording.removed[0].endswith("/_metadata") and len(Recording.removed) > 1
