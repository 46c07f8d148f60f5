"""Checkpoint storage when something is missing, damaged, or comes in between."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.errors import CheckpointError, DamagedCheckpointError, FencedError
from penstock.engine.checkpoint.effects import StoreManifest
from penstock.engine.checkpoint.job_record import JobRecord, read_record
from penstock.engine.checkpoint.latest import end_of_job, latest_of, latest_of_job
from penstock.engine.checkpoint.manifest import Manifest, encode, seal
from penstock.engine.checkpoint.storage import (
    METADATA,
    DirectoryStorage,
    SavepointStorage,
    completed_in,
    files_directory,
    read_manifest,
    record_in,
)
from penstock.engine.checkpoint.storage_requests import carry_out
from penstock.engine.runtime.checkpoint_options import CheckpointOptions


def write(storage: DirectoryStorage | SavepointStorage, name: str, shared: bool = False, data: bytes = b"x") -> str:
    file = storage.create(name, shared)
    file.write(data)
    file.close()
    return file.path


def published(directory: Path, number: int, **fields: object) -> Manifest:
    """A checkpoint with a file of its own and a shared one."""
    storage = DirectoryStorage(str(directory))
    paths = [write(storage, f"{number}-own"), write(storage, f"{number}-shared", shared=True)]
    manifest = manifest_of(number, paths, completed_ms=number, **fields)
    assert storage.publish(manifest) == f"{directory}/chk-{number}"
    return manifest


def names(directory: Path) -> set[str]:
    found = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    return {name for name in found if "record/" not in name}


def test_a_damaged_checkpoint_is_not_the_latest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A job could not start from any checkpoint because the newest one is damaged, or would start silently."""
    published(tmp_path / "job", 1)
    published(tmp_path / "job", 2)
    path = tmp_path / "job" / "chk-2" / METADATA
    path.write_bytes(path.read_bytes()[:-9])
    assert latest_of(str(tmp_path), "a job").path == str(tmp_path / "job" / "chk-2"), "that was a copy"
    on_record = tmp_path / "job" / "record" / "00000002"
    on_record.write_bytes(on_record.read_bytes()[:-9])
    with pytest.raises(DamagedCheckpointError, match=r"entry 2 .*chk-1.* output of files .*--allow-duplicates"):
        latest_of(str(tmp_path), "a job", ["files"])
    with caplog.at_level(logging.WARNING):
        assert latest_of(str(tmp_path), "a job").path == str(tmp_path / "job" / "chk-1")
    assert "entry 2" in caplog.text and "damaged" in caplog.text


def test_checkpoints_of_before_there_were_records(tmp_path: Path) -> None:
    """A job could not be upgraded to this version, or would fall back silently."""
    for number in (1, 2):
        published(tmp_path / "job", number)
    shutil.rmtree(tmp_path / "job" / "record")
    latest = latest_of(str(tmp_path), "a job", ["files"])
    assert latest.path == str(tmp_path / "job" / "chk-2") and latest.content is None
    path = tmp_path / "job" / "chk-2" / METADATA
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedCheckpointError, match=r"output of files .*--allow-duplicates"):
        latest_of(str(tmp_path), "a job", ["files"])
    assert latest_of(str(tmp_path), "a job").path == str(tmp_path / "job" / "chk-1")


def test_checkpoints_that_can_not_be_read(tmp_path: Path) -> None:
    """The user would read a traceback of a library, and not which setting to look at."""
    (tmp_path / "file").touch()
    told = r"cannot read the checkpoints below .*/file: .*execution\.checkpointing\.dir name"
    with pytest.raises(CheckpointError, match=told):
        latest_of(str(tmp_path / "file"), "a job")


def test_a_record_that_can_not_be_read(tmp_path: Path) -> None:
    """A dispatcher that starts a job again after its process ended would report a traceback of a library."""
    published(tmp_path / "job", 1)
    for record in (tmp_path / "job" / "record").iterdir():
        # A directory, which no user may read as a file.
        record.unlink()
        record.mkdir()
    for read in (lambda: latest_of_job(str(tmp_path), "job", "a job"), lambda: end_of_job(str(tmp_path), "job")):
        with pytest.raises(CheckpointError, match="cannot read"):
            read()


def taken_over(directory: Path, newest: int) -> DirectoryStorage:
    """Return the storage of a run that takes over the job in a directory."""
    store = record_in(str(directory))
    record = JobRecord.claim(store, "a job", read_record(store))
    return DirectoryStorage(str(directory), record, newest=newest)


def test_a_run_deletes_nothing_of_its_successor(tmp_path: Path) -> None:
    """A driver that slept for a minute would delete the checkpoints of the run that has taken its job over."""
    former = DirectoryStorage(str(tmp_path / "job"))
    kept = manifest_of(1, [write(former, "1-kept", shared=True)])
    former.publish(kept)
    run = taken_over(tmp_path / "job", 1)
    own = [write(run, "2-own"), write(run, "2-shared", shared=True)]
    assert own == ["chk-2/e2-2-own", "shared/e2-2-shared"], "no two runs write one name"
    run.publish(manifest_of(2, [*own, "shared/1-kept"], epoch=2))
    former.sweep([kept])
    assert names(tmp_path / "job") == {*own, "shared/1-kept", f"chk-1/{METADATA}", f"chk-2/{METADATA}"}
    with pytest.raises(FencedError):
        former.publish(manifest_of(2))
    for change in (lambda: former.sweep([]), lambda: former.remove(own), lambda: former.discard(kept)):
        with pytest.raises(FencedError):
            change()
    assert read_manifest(str(tmp_path / "job" / "chk-2")).epoch == 2


def test_what_former_runs_have_left_is_swept(tmp_path: Path) -> None:
    """Files of workers that were killed would stay for as long as the job lives, through all its runs."""
    former = DirectoryStorage(str(tmp_path / "job"))
    needed = write(former, "1-needed", shared=True)
    former.publish(origin := manifest_of(1, [needed]))
    for name in ("2-half", "2-other"):
        write(former, name)
    run = taken_over(tmp_path / "job", 1)
    new = write(run, "2-new")
    run.sweep([origin], former_only=True)
    assert names(tmp_path / "job") == {needed, new, f"chk-1/{METADATA}"}


def test_a_job_that_has_ended_leaves_nothing(tmp_path: Path) -> None:
    """Directories of finished jobs would fill the disk; a half deleted one would look like a job that can continue."""
    storage = DirectoryStorage(str(tmp_path / "job"))
    storage.publish(manifest_of(1, [write(storage, "1-x", shared=True)]))
    storage.record_end("FINISHED")
    with pytest.raises(
        CheckpointError, match=r"no checkpoint of a job named 'a job'.*as by Ctrl-C.*RETAIN_ON_CANCELLATION"
    ):
        latest_of(str(tmp_path), "a job")
    storage.sweep([])
    assert [path.name for path in (tmp_path / "job").rglob("*") if path.is_file()] == ["00000002"], (
        "the end is on record"
    )
    storage.delete()
    assert not (tmp_path / "job").exists()


def test_a_job_that_was_stopped_says_with_which_savepoint(tmp_path: Path) -> None:
    """A user who needs the latest checkpoint would not know where to start."""
    record = JobRecord(record_in(f"{tmp_path}/job"), "a job")
    storage = DirectoryStorage(str(tmp_path / "job"), record)
    storage.publish(manifest_of(1))
    storage.record_end("FINISHED", "/savepoints/one")
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"is FINISHED, with the savepoint /savepoints/one: start from it"):
            latest_of(str(tmp_path), "a job")
        # As when the driver is killed before it has answered the user.
        storage.sweep([])


def saved(tmp_path: Path) -> tuple[DirectoryStorage, Path]:
    """A job without a checkpoint interval that has committed output with a savepoint, after a checkpoint."""
    storage = DirectoryStorage(str(tmp_path / "job"), JobRecord(record_in(f"{tmp_path}/job"), "a job"))
    storage.publish(manifest_of(1))
    path = tmp_path / "savepoints" / "one"
    manifest = msgspec.structs.replace(manifest_of(2, ["x"]), savepoint=True)
    effect = StoreManifest(1, manifest, CheckpointOptions(savepoint=str(path)), commits=True)
    carry_out(effect, storage)
    return storage, path


def test_the_latest_is_the_savepoint_that_was_committed(tmp_path: Path) -> None:
    """A job restored from the checkpoint before the savepoint would repeat what was committed with it."""
    storage, path = saved(tmp_path)
    latest = latest_of(str(tmp_path), "a job", ["files"])
    assert latest.path == str(path) and latest.manifest.files() == {f"{path}/x"} and latest.manifest.checkpoint_id == 2
    (path / METADATA).unlink()
    with pytest.raises(DamagedCheckpointError, match=rf"continues from the savepoint .* was deleted: .*{path}"):
        latest_of(str(tmp_path), "a job")
    storage.publish(manifest_of(3))
    assert latest_of(str(tmp_path), "a job").manifest.checkpoint_id == 3


@pytest.mark.parametrize("stops", [True, False])
def test_a_savepoint_of_a_run_that_was_taken_over_is_removed(tmp_path: Path, stops: bool) -> None:
    """A user would start from it, and its output would be committed in addition to the other run's."""
    storage, _ = saved(tmp_path)
    JobRecord.claim(record_in(f"{tmp_path}/job"), "a job", latest_of(str(tmp_path), "a job").content)
    other = tmp_path / "savepoints" / "other"
    with pytest.raises(FencedError):
        options = CheckpointOptions(savepoint=str(other), stop=stops)
        carry_out(StoreManifest(1, manifest_of(3), options, commits=not stops), storage)
    assert not other.exists()


class Unheard(msgspec.Struct):
    """An entry that a later version may write."""

    kind: str = "unheard"
    epoch: int = 1
    record_number: int = 3
    job_name: str = "a job"
    checksum: str = ""


def test_an_entry_of_a_newer_penstock_is_not_passed_over(tmp_path: Path) -> None:
    """The job would continue from before an entry that this version does not know."""
    saved(tmp_path)
    (tmp_path / "job" / "record" / "00000003").write_bytes(seal(Unheard()))
    with pytest.raises(CheckpointError, match=r"has the kind 'unheard', which this version of penstock does not know"):
        latest_of(str(tmp_path), "a job")


def test_the_manifest_of_another_checkpoint_is_damage(tmp_path: Path) -> None:
    """A copy that has gone wrong would leave a job with the positions of one moment and the name of another."""
    published(tmp_path / "job", 1)
    published(tmp_path / "job", 2)
    older, newer = (tmp_path / "job" / f"chk-{number}" / METADATA for number in (1, 2))
    newer.write_bytes(older.read_bytes())
    for path in (newer, newer.parent):
        with pytest.raises(DamagedCheckpointError, match=r"chk-2/_metadata is damaged: it describes checkpoint 1"):
            read_manifest(str(path))
    assert read_manifest(str(older)).checkpoint_id == 1


def test_a_savepoint_has_any_name(tmp_path: Path) -> None:
    """A savepoint could not be kept in a directory whose name looks like that of a checkpoint."""
    directory = tmp_path / "chk-9"
    manifest = manifest_of(4, savepoint=True)
    SavepointStorage(str(directory)).publish(manifest)
    assert read_manifest(str(directory)) == manifest


def test_a_manifest_that_can_not_be_read_now_is_not_skipped(tmp_path: Path) -> None:
    """A job would start from an older checkpoint because of a moment without network, and repeat later commits."""
    published(tmp_path / "job", 1)
    (tmp_path / "job" / "chk-2" / METADATA).mkdir(parents=True)
    with pytest.raises(CheckpointError, match="cannot read") as raised:
        read_manifest(str(tmp_path / "job" / "chk-2"))
    assert not isinstance(raised.value, DamagedCheckpointError)


def test_what_lies_beside_the_jobs_is_not_looked_into(tmp_path: Path) -> None:
    """A file that a user has put into the directory of all checkpoints would keep each job from starting."""
    published(tmp_path / "job", 1)
    (tmp_path / "README").write_text("these are checkpoints")
    (tmp_path / "empty").mkdir()
    (tmp_path / "job" / "chk-x").mkdir()
    (tmp_path / "job" / "chk-7").mkdir()
    assert latest_of(str(tmp_path), "a job").path == str(tmp_path / "job" / "chk-1")
    assert [number for number, _ in completed_in(str(tmp_path / "job"))] == [1]


def test_no_checkpoints_at_all(tmp_path: Path) -> None:
    """The first start of a job with `latest` would end in an OSError, and not say what is missing."""
    assert completed_in(str(tmp_path / "nowhere")) == []
    with pytest.raises(CheckpointError, match="no checkpoint of a job named 'a job' below"):
        latest_of(str(tmp_path / "nowhere"), "a job")


def test_deleting_what_is_gone_is_no_failure(tmp_path: Path) -> None:
    """A checkpoint would fail because an earlier attempt had deleted half of an older one."""
    storage = DirectoryStorage(str(tmp_path / "job"))
    manifest = published(tmp_path / "job", 1)
    for _ in range(2):
        storage.discard(manifest)
        storage.remove(manifest.files())
    assert names(tmp_path) == set()
    SavepointStorage(str(tmp_path / "never")).remove()


def test_files_of_other_jobs_are_not_removed(tmp_path: Path) -> None:
    """A job that was started from a savepoint would delete the savepoint's files with its own."""
    foreign = tmp_path / "savepoint"
    foreign.mkdir()
    (foreign / "file").write_bytes(b"x")
    storage = DirectoryStorage(str(tmp_path / "job"))
    storage.remove([str(foreign / "file")])
    storage.sweep([manifest_of(1, [str(foreign / "file")])])
    assert names(tmp_path) == {"savepoint/file"}


def test_a_directory_is_removed_with_its_last_file_and_not_before(tmp_path: Path) -> None:
    """Files of the checkpoint that is being written would go with those of one that is subsumed."""
    storage = DirectoryStorage(str(tmp_path / "job"))
    first, second = write(storage, "5-a"), write(storage, "5-b")
    storage.remove([first])
    assert names(tmp_path / "job") == {"chk-5/5-b"}
    storage.remove([second])
    assert not (tmp_path / "job" / "chk-5").exists()
    write(storage, "5-c")
    assert names(tmp_path / "job") == {"chk-5/5-c"}, "and is made again when it is needed"


def test_a_savepoint_that_was_aborted_goes_with_all_it_had_written(tmp_path: Path) -> None:
    """Savepoints that failed would fill the disk of their user, and look like good ones."""
    savepoint = DirectoryStorage(str(tmp_path / "job")).savepoint(str(tmp_path / "sp"))
    write(savepoint, "9-a", shared=True)
    assert names(tmp_path) == {"sp/9-a"}, "it holds all that it needs: nothing of it is shared"
    savepoint.remove_unfinished()
    assert not (tmp_path / "sp").exists()


def test_a_savepoint_that_may_be_on_record_stays(tmp_path: Path) -> None:
    """The record of its job may name it as the end, though its store has said no: it was removed, and the job could be
    started from nowhere without being told where from."""
    savepoint = DirectoryStorage(str(tmp_path / "job")).savepoint(str(tmp_path / "sp"))
    write(savepoint, "9-a", shared=True)
    savepoint.publish(manifest_of(9))
    savepoint.remove_unfinished()
    assert names(tmp_path) >= {"sp/9-a", f"sp/{METADATA}"}
    savepoint.remove()
    assert not (tmp_path / "sp").exists()


@pytest.mark.parametrize("savepoint", [True, False])
@pytest.mark.parametrize("end", ["", "/", f"/{METADATA}"])
def test_files_are_found_by_any_path_of_a_checkpoint(tmp_path: Path, savepoint: bool, end: str) -> None:
    """A user who names the manifest, as in Flink, or ends the path with a slash, would read that files are missing."""
    path = f"{tmp_path}/job/chk-3{end}"
    directory = files_directory(path, manifest_of(3, savepoint=savepoint))
    assert directory == str(tmp_path / "job" / "chk-3" if savepoint else tmp_path / "job")


def test_an_unfinished_manifest_is_no_checkpoint(tmp_path: Path) -> None:
    """A driver that dies while it writes would leave half a checkpoint, from which the next one starts."""
    published(tmp_path / "job", 1)
    unfinished = tmp_path / "job" / "chk-2" / f"{METADATA}.unfinished"
    unfinished.parent.mkdir()
    unfinished.write_bytes(b"{")
    assert [number for number, _ in completed_in(str(tmp_path / "job"))] == [1]
    kept = read_manifest(str(tmp_path / "job" / "chk-1"))
    DirectoryStorage(str(tmp_path / "job"), newest=1).sweep([kept])
    assert unfinished.exists(), "a successor may be writing it"
    DirectoryStorage(str(tmp_path / "job"), newest=2).sweep([kept])
    assert not unfinished.exists()


@settings(max_examples=25)
@given(
    checkpoints=st.lists(st.sets(st.integers(0, 5), max_size=4), max_size=4),
    kept=st.sets(st.integers(0, 3)),
    others=st.sets(st.integers(0, 5)),
)
def test_a_sweep_leaves_exactly_what_the_retained_checkpoints_need(
    tmp_path_factory: pytest.TempPathFactory, checkpoints: list[set[int]], kept: set[int], others: set[int]
) -> None:
    """A job could not be restored, or files of killed workers would stay forever."""
    directory = tmp_path_factory.mktemp("sweep") / "job"
    storage = DirectoryStorage(str(directory))
    for number in set().union(others, *checkpoints):
        write(storage, f"{number}-file", shared=True)
    retained = []
    for number, files in enumerate(checkpoints):
        own = write(storage, f"{number}-own")
        storage.publish(manifest := manifest_of(number, [own, *(f"shared/{file}-file" for file in files)]))
        if number in kept:
            retained.append(manifest)
    storage.sweep(retained)
    expected = {path for manifest in retained for path in manifest.files()}
    expected |= {f"chk-{manifest.checkpoint_id}/{METADATA}" for manifest in retained}
    assert names(directory) == expected
    assert [number for number, _ in completed_in(str(directory))] == [one.checkpoint_id for one in retained]
    left = [read_manifest(str(directory / f"chk-{one.checkpoint_id}")) for one in retained]
    assert [msgspec.structs.replace(one, record_number=0) for one in left] == retained


def test_a_copy_that_can_not_be_written_fails_no_checkpoint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Files of a checkpoint on record would be discarded, and missing after the next start."""
    storage = DirectoryStorage(str(tmp_path / "job"))
    (tmp_path / "job" / "chk-1" / METADATA).mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        storage.publish(manifest_of(1))
    assert "its copy could not be written" in caplog.text
    assert latest_of(str(tmp_path), "a job").manifest.checkpoint_id == 1


def test_a_job_whose_record_is_damaged_is_not_passed_over(tmp_path: Path) -> None:
    """An older job of the same name would silently be started in its place."""
    published(tmp_path / "old", 1)
    published(tmp_path / "new", 2)
    on_record = tmp_path / "new" / "record" / "00000001"
    on_record.write_bytes(on_record.read_bytes()[:-9])
    with pytest.raises(DamagedCheckpointError, match=r"new: entry 1 .*chk-2.*--allow-duplicates"):
        latest_of(str(tmp_path), "a job", ["files"])
    assert latest_of(str(tmp_path), "a job").path == str(tmp_path / "new" / "chk-2"), "its copy is whole"
    (tmp_path / "new" / "chk-2" / METADATA).unlink()
    with pytest.raises(DamagedCheckpointError, match=r"new: entry 1 .*remove it if it is not"):
        latest_of(str(tmp_path), "a job")


def test_the_record_of_another_job_is_its_own_affair(tmp_path: Path) -> None:
    """No job could start while a newer penstock has one below the same directory."""
    published(tmp_path / "mine", 1)
    published(tmp_path / "other", 2, job_name="another job")
    on_record = tmp_path / "other" / "record" / "00000001"
    manifest = manifest_of(2, job_name="another job", version=99, oldest_reader=99, record_number=1)
    on_record.write_bytes(encode(manifest))
    assert latest_of(str(tmp_path), "a job").path == str(tmp_path / "mine" / "chk-1")
    with pytest.raises(CheckpointError, match=r"other: .*version 99"):
        latest_of(str(tmp_path), "another job")
