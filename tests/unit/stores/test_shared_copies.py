"""Subtasks of one machine that restore the same files: each is copied once, whoever fails, stops or is killed."""

from __future__ import annotations

import fcntl
import os
import threading
import time

import pytest

from penstock.state.backends.rocksdb.store import StoredFile
from penstock.stores import shared_copies
from penstock.stores.shared_copies import put_files

PIECE = b"x" * 1000


class Source:
    """Files in a checkpoint storage, which counts how often each is read."""

    def __init__(self, names, pause_s=0.0) -> None:
        self.read = dict.fromkeys(names, 0)
        self._pause_s = pause_s

    def files(self, fails_at=None):
        return {name: StoredFile(self._parts(name, name == fails_at), f"id-{name}") for name in self.read}

    def content(self, name):
        return name.encode() + 5 * PIECE

    def _parts(self, name, fails):
        self.read[name] += 1
        yield name.encode()
        for _ in range(5):
            time.sleep(self._pause_s)
            yield PIECE
        if fails:
            raise OSError("the store is away")


def targets(tmp_path, count):
    found = [tmp_path / f"database-{number}" for number in range(count)]
    for target in found:
        target.mkdir()
    return found


def at_once(calls):
    """Errors of `calls`, each made by a thread, all at the same moment."""
    barrier, errors = threading.Barrier(len(calls)), []

    def run(call) -> None:
        barrier.wait()
        try:
            call()
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_each_file_is_read_once_and_all_have_it(tmp_path) -> None:
    """A job that doubles its parallelism would copy its whole state twice."""
    source = Source(["1.sst", "2.sst", "3.sst", "4.sst"], pause_s=0.01)
    places = targets(tmp_path, 3)
    assert at_once([lambda place=place: put_files(source.files(), place, str(tmp_path)) for place in places]) == []
    assert set(source.read.values()) == {1}
    for place in places:
        assert {path.name: path.read_bytes() for path in place.iterdir()} == {
            name: source.content(name) for name in source.read
        }
    assert {*tmp_path.iterdir()} == {*places}


def test_what_one_removes_the_others_keep(tmp_path) -> None:
    """RocksDB removes files that it has compacted: that would take the state of a neighbour."""
    source = Source(["1.sst"])
    one, other = targets(tmp_path, 2)
    at_once([lambda place=place: put_files(source.files(), place, str(tmp_path)) for place in (one, other)])
    (one / "1.sst").unlink()
    assert (other / "1.sst").read_bytes() == source.content("1.sst")


def test_files_without_an_identity_are_each_ones_own(tmp_path) -> None:
    """A database writes to its manifest: two of them would write to the same."""
    one, other = targets(tmp_path, 2)
    files = [{"MANIFEST": StoredFile([b"begin"]), "1.sst": StoredFile([b"table"], "id")} for _ in range(2)]
    at_once([lambda: put_files(files[0], one, str(tmp_path)), lambda: put_files(files[1], other, str(tmp_path))])
    with (one / "MANIFEST").open("ab") as manifest:
        manifest.write(b", and more")
    assert (other / "MANIFEST").read_bytes() == b"begin"


def test_one_that_fails_leaves_the_file_to_the_others(tmp_path) -> None:
    """A part of a file would be taken for the file, or the others would wait for ever."""
    source = Source(["1.sst", "2.sst"], pause_s=0.01)
    one, other = targets(tmp_path, 2)
    errors = at_once(
        [
            lambda: put_files(source.files(fails_at="2.sst"), one, str(tmp_path)),
            lambda: put_files(source.files(), other, str(tmp_path)),
        ]
    )
    assert len(errors) <= 1  # none, if the other one was the first at that file
    assert {path.name: path.read_bytes() for path in other.iterdir()} == {
        name: source.content(name) for name in source.read
    }
    assert {*tmp_path.iterdir()} == {one, other}


def test_what_a_killed_one_has_begun_is_begun_anew(tmp_path) -> None:
    """The rest of its file would follow the new one."""
    source = Source(["1.sst"])
    (place,) = targets(tmp_path, 1)
    directory = tmp_path / f"penstock-restored-{os.geteuid()}"
    directory.mkdir(mode=0o700)
    (directory / "id-1.sst.unfinished").write_bytes(b"y" * 100_000)
    put_files(source.files(), place, str(tmp_path))
    assert (place / "1.sst").read_bytes() == source.content("1.sst")
    assert not directory.exists()


def test_one_that_stands_still_is_not_waited_for(tmp_path, monkeypatch) -> None:
    """A worker that is stopped would stop the restores of all that begin with the same files."""
    monkeypatch.setattr(shared_copies, "PATIENCE_S", 0.1)
    source = Source(["1.sst", "2.sst"])
    (place,) = targets(tmp_path, 1)
    directory = tmp_path / f"penstock-restored-{os.geteuid()}"
    directory.mkdir(mode=0o700)
    with (directory / "id-1.sst.unfinished").open("wb") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        put_files(source.files(), place, str(tmp_path))
    assert (place / "1.sst").read_bytes() == source.content("1.sst")
    assert source.read == {"1.sst": 1, "2.sst": 1}


def test_one_that_is_slow_is_waited_for(tmp_path, monkeypatch) -> None:
    """What comes slowly from an object store would be read twice, which makes it slower still."""
    monkeypatch.setattr(shared_copies, "PATIENCE_S", 0.3)
    unfinished = tmp_path / f"penstock-restored-{os.geteuid()}" / "id-1.sst.unfinished"
    source = Source(["1.sst"])
    one, other = targets(tmp_path, 2)
    begun = threading.Event()

    def slow():
        for _ in range(6):  # 0.6 s in all
            yield 100 * PIECE
            begun.set()
            time.sleep(0.1)

    first = threading.Thread(target=put_files, args=({"1.sst": StoredFile(slow(), "id-1.sst")}, one, str(tmp_path)))
    first.start()
    begun.wait(timeout=10)
    assert unfinished.exists()
    put_files(source.files(), other, str(tmp_path))
    first.join()
    assert source.read == {"1.sst": 0}
    assert (other / "1.sst").read_bytes() == 600 * PIECE


@pytest.mark.parametrize("kind", ["open to all", "a link", "a file"])
def test_a_directory_of_others_is_not_used(tmp_path, kind) -> None:
    """Whoever made it first would give a job its state."""
    source = Source(["1.sst"])
    (place,) = targets(tmp_path, 1)
    directory, elsewhere = tmp_path / f"penstock-restored-{os.geteuid()}", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if kind == "open to all":
        directory.mkdir()
        directory.chmod(0o777)
        (directory / "id-1.sst").write_bytes(b"forged")
    elif kind == "a link":
        directory.symlink_to(elsewhere)
        (elsewhere / "id-1.sst").write_bytes(b"forged")
    else:
        directory.write_text("")
    put_files(source.files(), place, str(tmp_path))
    assert (place / "1.sst").read_bytes() == source.content("1.sst")
