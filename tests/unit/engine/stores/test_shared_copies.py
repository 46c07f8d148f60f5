"""Subtasks of one machine that restore the same files: each is copied once, even if subtasks fail or are killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from penstock.common.errors import CheckpointError
from penstock.common.files.held_directory import held_together, remove_abandoned
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.runtime.task.restore import RestoredStorage
from penstock.engine.state.backends.rocksdb.store import StoredFile
from penstock.engine.state.backends.rocksdb.store_files import contents_of
from penstock.engine.state.handles import KeyedFile, Section, TableInFile
from penstock.engine.stores import shared_copies
from penstock.engine.stores.shared_copies import directory_name_of, put_files
from penstock.hosts.simulator.storage import MemoryStorage

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


def directory_of(source, tmp_path):
    """Return the directory with the copies of its files."""
    return tmp_path / f"penstock-held-{directory_name_of(source.files())}"


def being_removed(source, tmp_path):
    """Return the directory, locked for removal by its last holder, and the lock to close."""
    directory = directory_of(source, tmp_path)
    directory.mkdir(mode=0o700)
    lock = os.open(directory, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return directory, lock


def at_once(calls):
    """Return the errors of `calls`, which threads make at the same time."""
    barrier, errors = threading.Barrier(len(calls)), []

    def run(call) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
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
    files = {"MANIFEST": StoredFile([b"begin"]), "1.sst": StoredFile([b"table"], "id")}
    with held_together(directory_name_of({"1.sst": files["1.sst"]}), str(tmp_path), 1):
        for place in (one, other):
            put_files(files, place, str(tmp_path))
    assert (one / "1.sst").samefile(other / "1.sst")
    with (one / "MANIFEST").open("ab") as manifest:
        manifest.write(b", and more")
    assert (other / "MANIFEST").read_bytes() == b"begin"


def test_one_that_fails_leaves_the_file_to_the_others(tmp_path) -> None:
    """A partial file would be used, or take scarce disk space, or the others would wait."""
    source = Source(["1.sst"])
    one, other = targets(tmp_path, 2)
    unfinished = directory_of(source, tmp_path) / "id-1.sst.unfinished"
    sizes = []

    def fails():
        yield 1000 * PIECE
        sizes.append(unfinished.stat().st_size)
        raise OSError("the store is away")

    with held_together(directory_name_of(source.files()), str(tmp_path), 1):
        with pytest.raises(OSError, match="the store is away"):
            put_files({"1.sst": StoredFile(fails(), "id-1.sst")}, one, str(tmp_path))
        assert (sizes, unfinished.stat().st_size) == ([1_000_000], 0)
        put_files(source.files(), other, str(tmp_path))
    assert (other / "1.sst").read_bytes() == source.content("1.sst")
    assert {*tmp_path.iterdir()} == {one, other}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_was_finished_meanwhile_is_not_begun_again(tmp_path, monkeypatch, is_there) -> None:
    """A database would have an empty file instead of its table, even if the copy was removed meanwhile."""
    source = Source(["1.sst"])
    one, other = targets(tmp_path, 2)
    lock = fcntl.flock

    with held_together(directory_name_of(source.files()), str(tmp_path), 1) as directory:

        def another_finishes_first(file, how):
            if Path(f"/proc/self/fd/{file}").readlink().suffix == ".unfinished":
                # Between the look for the copy and the lock of the file: all that can be locked by then is the copy.
                monkeypatch.setattr(fcntl, "flock", lock)
                put_files(source.files(), one, str(tmp_path))
                if not is_there:
                    (directory / "id-1.sst").unlink()
            return lock(file, how)

        monkeypatch.setattr(fcntl, "flock", another_finishes_first)
        put_files(source.files(), other, str(tmp_path))
        assert [path.name for path in directory.iterdir()] == ["id-1.sst"]
    for place in (one, other):
        assert (place / "1.sst").read_bytes() == source.content("1.sst")
    assert source.read == {"1.sst": 1 if is_there else 2}


def test_a_file_that_was_finished_before_it_was_opened_is_not_read_again(tmp_path, monkeypatch) -> None:
    """Of many subtasks that begin at the same time, some would write to an existing file."""
    source = Source(["1.sst"])
    one, other = targets(tmp_path, 2)
    opened = os.open

    def another_finishes_first(path, *how):
        if Path(path).suffix == ".unfinished":
            monkeypatch.setattr(os, "open", opened)
            put_files(source.files(), one, str(tmp_path))
        return opened(path, *how)

    with held_together(directory_name_of(source.files()), str(tmp_path), 1) as directory:
        monkeypatch.setattr(os, "open", another_finishes_first)
        put_files(source.files(), other, str(tmp_path))
        assert [path.name for path in directory.iterdir()] == ["id-1.sst"]
    assert source.read == {"1.sst": 1}
    assert (one / "1.sst").samefile(other / "1.sst")


def test_a_copy_that_is_removed_at_once_takes_nobody_its_file(tmp_path, monkeypatch) -> None:
    """A cleaner of temporary files would turn it into an empty table."""
    source = Source(["1.sst"])
    (place,) = targets(tmp_path, 1)
    rename = Path.rename

    def and_removed(self, target):
        rename(self, target).unlink()

    monkeypatch.setattr(Path, "rename", and_removed)
    put_files(source.files(), place, str(tmp_path))
    assert (place / "1.sst").read_bytes() == source.content("1.sst")


@pytest.mark.parametrize("latecomer", ["restores", "cleans up"])
def test_a_directory_that_was_made_anew_is_left_alone(tmp_path, monkeypatch, latecomer) -> None:
    """A process that had opened the removed file would truncate the new one during the restores of others."""
    source = Source(["1.sst"])
    (place,) = targets(tmp_path, 1)
    directory = directory_of(source, tmp_path)
    directory.mkdir(mode=0o700)
    lock = fcntl.flock

    def is_made_anew(file, how):
        monkeypatch.setattr(fcntl, "flock", lock)
        directory.rmdir()
        holding = held_together(directory_name_of(source.files()), str(tmp_path), 1)
        (holding.__enter__() / "id-1.sst").write_bytes(source.content("1.sst"))
        held.append(holding)
        return lock(file, how)

    held: list[AbstractContextManager[Path]] = []
    monkeypatch.setattr(fcntl, "flock", is_made_anew)
    if latecomer == "restores":
        put_files(source.files(), place, str(tmp_path))
    else:
        remove_abandoned(str(tmp_path))
    assert (directory / "id-1.sst").read_bytes() == source.content("1.sst")
    assert source.read == {"1.sst": 0}
    held[0].__exit__(None, None, None)
    assert not directory.exists()


def test_what_killed_ones_have_left_is_not_trusted(tmp_path) -> None:
    """After a power failure a file may exist whose content was never written."""
    source = Source(["1.sst", "2.sst"])
    (place,) = targets(tmp_path, 1)
    directory = directory_of(source, tmp_path)
    directory.mkdir(mode=0o700)
    (directory / "id-1.sst").write_bytes(b"")
    (directory / "id-2.sst.unfinished").write_bytes(b"y" * 100_000)
    put_files(source.files(), place, str(tmp_path))
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {
        name: source.content(name) for name in source.read
    }
    assert not directory.exists()


def test_what_killed_ones_have_left_is_removed_by_the_next_job(tmp_path) -> None:
    """The state of a job would stay on the disk after the job."""
    directory = directory_of(Source(["1.sst"]), tmp_path)
    directory.mkdir(mode=0o700)
    (directory / "id-1.sst").write_bytes(b"x")
    with held_together(directory_name_of(Source(["2.sst"]).files()), str(tmp_path), 1) as held:
        remove_abandoned(str(tmp_path))
        assert [*tmp_path.iterdir()] == [held]


def test_what_is_begun_behind_a_killed_one_is_begun_anew(tmp_path) -> None:
    """The rest of its file would follow the new one."""
    source = Source(["1.sst"])
    (place,) = targets(tmp_path, 1)
    with held_together(directory_name_of(source.files()), str(tmp_path), 1) as directory:
        (directory / "id-1.sst.unfinished").write_bytes(b"y" * 100_000)
        put_files(source.files(), place, str(tmp_path))
    assert (place / "1.sst").read_bytes() == source.content("1.sst")


def test_one_that_stands_still_is_not_waited_for(tmp_path, monkeypatch) -> None:
    """A stopped worker would block all restores of the same files."""
    monkeypatch.setattr(shared_copies, "PATIENCE_S", 0.1)
    source = Source(["1.sst", "2.sst"])
    (place,) = targets(tmp_path, 1)
    with (
        held_together(directory_name_of(source.files()), str(tmp_path), 1) as directory,
        (directory / "id-1.sst.unfinished").open("wb") as stopped,
    ):
        fcntl.flock(stopped, fcntl.LOCK_EX)
        put_files(source.files(), place, str(tmp_path))
    assert (place / "1.sst").read_bytes() == source.content("1.sst")
    assert source.read == {"1.sst": 1, "2.sst": 1}


def test_one_that_stands_still_as_it_removes_is_not_waited_for(tmp_path, monkeypatch) -> None:
    """Each later restore would hang at its beginning."""
    monkeypatch.setattr(shared_copies, "PATIENCE_S", 0.1)
    source = Source(["1.sst"])
    (place,) = targets(tmp_path, 1)
    _, stopped = being_removed(source, tmp_path)
    put_files(source.files(), place, str(tmp_path))
    os.close(stopped)
    assert (place / "1.sst").read_bytes() == source.content("1.sst")


def test_one_that_comes_as_the_last_one_removes_has_a_new_directory(tmp_path) -> None:
    """The directory of its copies would not exist, and its restore would fail."""
    source = Source(["1.sst"])
    (place,) = targets(tmp_path, 1)
    directory, last = being_removed(source, tmp_path)
    newcomer = threading.Thread(target=put_files, args=(source.files(), place, str(tmp_path)))
    newcomer.start()
    time.sleep(0.1)
    directory.rmdir()
    os.close(last)
    newcomer.join()
    assert (place / "1.sst").read_bytes() == source.content("1.sst")
    assert [*tmp_path.iterdir()] == [place]


def test_one_that_is_interrupted_as_it_removes_holds_nothing(tmp_path, monkeypatch) -> None:
    """After an interrupted restore in a notebook, no other restore could begin."""
    source = Source(["1.sst"])
    one, other = targets(tmp_path, 2)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            put_files(source.files(), one, str(tmp_path))
    begun_s = time.monotonic()
    put_files(source.files(), other, str(tmp_path))
    assert time.monotonic() - begun_s < shared_copies.PATIENCE_S
    assert {*tmp_path.iterdir()} == {one, other}


def test_one_that_is_slow_is_waited_for(tmp_path, monkeypatch) -> None:
    """A slow read from an object store would be done twice, which makes it slower."""
    monkeypatch.setattr(shared_copies, "PATIENCE_S", 1.0)
    source = Source(["1.sst"])
    one, other = targets(tmp_path, 2)
    begun = threading.Event()

    def slow():
        for _ in range(6):  # 1.5 s in all
            yield 100 * PIECE
            begun.set()
            time.sleep(0.25)

    first = threading.Thread(target=put_files, args=({"1.sst": StoredFile(slow(), "id-1.sst")}, one, str(tmp_path)))
    first.start()
    begun.wait(timeout=10)
    put_files(source.files(), other, str(tmp_path))
    first.join()
    assert source.read == {"1.sst": 0}
    assert (other / "1.sst").read_bytes() == 600 * PIECE


def test_without_links_files_are_copied(tmp_path, monkeypatch) -> None:
    """A restore would fail on file systems without links, although it does not need them."""

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    source = Source(["1.sst"])
    one, other = targets(tmp_path, 2)
    with held_together(directory_name_of(source.files()), str(tmp_path), 1):
        for place in (one, other):
            put_files(source.files(), place, str(tmp_path))
            assert (place / "1.sst").read_bytes() == source.content("1.sst")


def test_who_links_a_file_counts_it_once(tmp_path) -> None:
    """The progress of a restore would jump from one half to its end, or exceed 100 %."""
    source, counted = Source(["1.sst"]), []
    one, other = targets(tmp_path, 2)
    with held_together(directory_name_of(source.files()), str(tmp_path), 1):
        put_files(source.files(), one, str(tmp_path))
        linked = {
            name: file._replace(found_locally=partial(counted.append, name)) for name, file in source.files().items()
        }
        put_files(linked, other, str(tmp_path))
    assert counted == ["1.sst"]


def test_a_restore_reads_nothing_of_a_file_that_is_linked() -> None:
    """Each subtask would read the list of checksums from the object store, and count it twice."""
    file = KeyedFile("chk-1/a.sst", 100, store_file="a.sst", footer=Section(0, 50, 50, 9))
    counters = TaskCounters()
    storage = RestoredStorage(MemoryStorage(Random(1), 0), counters, [])
    stored = contents_of(storage, [file])["a.sst"]
    assert (counters.restored_files, counters.restored_bytes) == (0, 0)
    stored.found_locally()
    assert (counters.restored_files, counters.restored_bytes) == (1, 100)
    with pytest.raises(CheckpointError, match="missing"):
        b"".join(stored.parts)


@pytest.mark.parametrize("kind", ["open to all", "another user's", "a link", "a file"])
def test_a_directory_of_others_is_not_used(tmp_path, kind) -> None:
    """A file that another user prepared would become the state of a job."""
    source = Source(["1.sst"])
    (place,) = targets(tmp_path, 1)
    directory, elsewhere = directory_of(source, tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    forged = directory / "id-1.sst"
    if kind == "a link":
        directory.symlink_to(elsewhere)
    elif kind == "a file":
        directory.write_text("")
        forged = elsewhere / "id-1.sst"
    else:
        directory.mkdir(mode=0o700)
    forged.write_bytes(b"forged")
    if kind == "open to all":
        directory.chmod(0o777)
    elif kind == "another user's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a directory away")
        os.chown(directory, 12_345, -1)
    put_files(source.files(), place, str(tmp_path))
    assert (place / "1.sst").read_bytes() == source.content("1.sst")
    assert forged.read_bytes() == b"forged"


def test_each_content_has_an_identity_of_its_own() -> None:
    """Files of two jobs may have the same relative path: one job would begin with the other's state."""
    tables = [TableInFile("a", True)]
    file = KeyedFile("chk-1/a.sst", 100, tables, [Section(0, 0, 100, 7)], store_file="a.sst", crc=1)
    others = [
        replace(file, path="chk-2/a.sst"),
        replace(file, bytes=101),
        replace(file, crc=2),
        replace(file, sections=[Section(0, 0, 100, 8)]),
    ]
    storage = MemoryStorage(Random(1), 0)
    identities = [contents_of(storage, [one])["a.sst"].identity for one in [file, *others]]
    assert len({*identities}) == 1 + len(others)
    later = replace(file, tables=[*tables, TableInFile("b", True)])
    assert contents_of(storage, [later])["a.sst"].identity == identities[0]
