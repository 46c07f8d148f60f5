"""The record of a job: its holder, its entries, and that a run which was taken over cannot publish."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.engine.checkpoint.interrupted_store import Interrupted
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.errors import CheckpointError, FencedError
from penstock.engine.checkpoint.job_record import (
    EMPTY_RECORD,
    End,
    JobRecord,
    RecordStore,
    checkpoints_in,
    older_in,
    read_record,
)
from penstock.engine.checkpoint.record_files import RecordFiles
from penstock.engine.checkpoint.storage import record_in


@pytest.fixture
def store(tmp_path: Path) -> RecordFiles:
    return record_in(str(tmp_path / "job"))


def newest(store: RecordStore) -> int | None:
    seen = read_record(store)
    return seen.checkpoint.checkpoint_id if seen is not None and seen.checkpoint is not None else None


def claimed(store: RecordStore) -> JobRecord:
    return JobRecord.claim(store, "a job", read_record(store))


def test_what_is_published_is_on_record(store: RecordFiles) -> None:
    """Another run would start from the beginning, or from a checkpoint before what was committed."""
    assert read_record(store) is None
    record = JobRecord(store, "a job")
    for number in (1, 4):
        record.publish(manifest_of(number))
        assert newest(store) == number
    record.forget(1)
    assert store.numbers() == [2] and newest(store) == 4
    record.publish(manifest_of(5))
    record.retain([5])
    assert store.numbers() == [3] and newest(store) == 5


@pytest.mark.parametrize("what", ["entries", "record", "job"])
def test_a_record_that_was_deleted_is_no_other_run(store: RecordFiles, tmp_path: Path, what: str) -> None:
    """A user who deleted the wrong directory would search for another run of the job, which does not exist."""
    record = JobRecord(store, "a job")
    record.publish(manifest_of(1))
    if what == "entries":
        store.remove(1)
        (tmp_path / "job" / "record").rmdir()
    else:
        shutil.rmtree(tmp_path / "job" / "record" if what == "record" else tmp_path / "job")
    for _ in range(2):
        with pytest.raises(FencedError, match="the record of this job was deleted") as raised:
            record.publish(manifest_of(2))
        assert "another run" not in str(raised.value)


def test_a_run_that_was_taken_over_can_publish_nothing(store: RecordFiles) -> None:
    """Two runs of one job would commit the same output."""
    former = JobRecord(store, "a job")
    former.publish(manifest_of(1))
    run = claimed(store)
    assert run.epoch == 2 and newest(store) == 1, "a claim is no checkpoint"
    for change in (
        lambda: former.publish(manifest_of(2)),
        lambda: former.publish_end("FINISHED"),
        lambda: former.forget(1),
        lambda: former.retain([]),
    ):
        with pytest.raises(FencedError, match="another run"):
            change()
        assert former.is_fenced
    assert newest(store) == 1
    run.publish(manifest_of(2))
    assert newest(store) == 2


def test_claims_stay_for_those_that_come_late(store: RecordFiles) -> None:
    """A run that sleeps for an hour would find its number free again, and publish."""
    former = JobRecord(store, "a job")
    former.publish(manifest_of(1))
    run = claimed(store)
    for number in range(2, 9):
        run.publish(manifest_of(number))
        run.retain([number])
    with pytest.raises(FencedError):
        former.publish(manifest_of(2))
    assert newest(store) == 8


def test_what_a_successor_wrote_is_not_removed(store: RecordFiles) -> None:
    """A run that does not know yet that it was taken over would delete the checkpoints of the other one."""
    former = JobRecord(store, "a job")
    former.publish(manifest_of(1))
    run = claimed(store)
    run.publish(manifest_of(2))
    former.retain([])
    assert newest(store) == 2


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "ended"])
def test_nothing_follows_the_end(store: RecordFiles, tmp_path: Path, gone: bool) -> None:
    """A run that was taken over, or a new one, would repeat finished work."""
    former = JobRecord(store, "a job")
    former.publish(manifest_of(1))
    run = claimed(store)
    run.publish_end("FINISHED", "/savepoints/one")
    assert run.has_ended
    seen = read_record(store)
    assert seen is not None and seen.end == End("a job", "FINISHED", "/savepoints/one") and seen.checkpoint is None
    if gone:
        for number in store.numbers():
            store.remove(number)
        (tmp_path / "job" / "record").rmdir()
    with pytest.raises(FencedError):
        former.publish(manifest_of(2))
    assert read_record(store) is None if gone else newest(store) is None


def test_of_two_that_take_over_at_once_one_does(store: RecordFiles) -> None:
    """Two `-s latest` at the same moment would both run."""
    JobRecord(store, "a job").publish(manifest_of(1))
    for _ in range(20):
        seen = read_record(store)
        results: list[str] = []
        start = threading.Barrier(4)

        def take(seen: object = seen, results: list[str] = results, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                JobRecord.claim(store, "a job", seen)  # type: ignore[arg-type]
                results.append("has it")
            except CheckpointError as error:
                results.append(str(error)[:32])

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == ["has it"] + ["the job has continued in the mea"] * 3 or results.count("has it") == 1


def test_an_entry_that_was_written_though_its_write_failed_counts_once(store: RecordFiles) -> None:
    """A run would mistake its own entry for another run's and fail, or skip its own entry."""

    class Unsure:
        """A store that reports failures of writes that it has done, or has not done."""

        def __init__(self, does: bool, reads: bool) -> None:
            self.numbers, self.remove = store.numbers, store.remove
            self.does, self.reads = does, reads

        def create(self, number: int, data: bytes) -> bool:
            if self.does:
                store.create(number, data)
            raise OSError("the connection was lost")

        def read(self, number: int) -> bytes:
            if not self.reads:
                raise OSError("the connection was lost")
            return store.read(number)

    def rests(seconds: float) -> None:
        """Let the run use the store again immediately."""

    JobRecord(Unsure(does=True, reads=True), "a job", pause=rests).publish(manifest_of(1))
    assert newest(store) == 1
    with pytest.raises(OSError, match="connection"):
        JobRecord(Unsure(does=False, reads=True), "a job", last=1, pause=rests).publish(manifest_of(2))
    assert newest(store) == 1
    unsure = Unsure(does=True, reads=False)
    record = JobRecord(unsure, "a job", last=1, pause=rests)
    with pytest.raises(OSError, match="connection"):
        record.publish(manifest_of(2, epoch=1))
    unsure.create, unsure.read = store.create, store.read  # type: ignore[method-assign]
    record.publish(manifest_of(3, epoch=1))
    assert newest(store) == 3 and not record.is_fenced


def test_an_entry_whose_write_failed_can_not_come_later(store: RecordFiles) -> None:
    """A late write would be restored from, although the last run had discarded its checkpoint."""

    class Late:
        numbers, remove, read = store.numbers, store.remove, store.read
        late: bytes | None = None

        def create(self, number: int, data: bytes) -> bool:
            if self.late is None:
                self.late = data
                raise OSError("timeout")
            return store.create(number, data)

    late = Late()
    record = JobRecord(late, "a job")
    with pytest.raises(OSError, match="timeout"):
        record.publish(manifest_of(1))
    assert late.late is not None and not store.create(1, late.late), "its number is taken"
    assert newest(store) is None
    record.publish(manifest_of(2))
    assert newest(store) == 2 and claimed(store).epoch == 2


class Away:
    """A store that loses the answer of one write, and is then unreachable."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self.loses_answer = self.is_unavailable = False

    def _reach(self) -> None:
        if self.is_unavailable:
            raise OSError("the store is away")

    def numbers(self) -> list[int]:
        self._reach()
        return self._store.numbers()

    def read(self, number: int) -> bytes:
        self._reach()
        return self._store.read(number)

    def remove(self, number: int) -> None:
        self._reach()
        self._store.remove(number)

    def create(self, number: int, data: bytes) -> bool:
        self._reach()
        is_made = self._store.create(number, data)
        if self.loses_answer:
            self.is_unavailable = True
            raise OSError("no answer")
        return is_made


@pytest.mark.parametrize("is_made", [True, False])
def test_nothing_is_removed_while_an_entry_is_unsure(store: RecordFiles, is_made: bool) -> None:
    """The files of a checkpoint whose failed write is on record would be deleted as those of an aborted one; a run that
    starts from it would then remove the last undamaged one as well."""
    away = Away(store)
    record = JobRecord(away, "a job", pause=lambda seconds: None)
    record.publish(manifest_of(1))
    away.loses_answer, away.is_unavailable = is_made, not is_made
    with pytest.raises(OSError, match="no answer" if is_made else "away"):
        record.publish(manifest_of(2))
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            record.retain([1])
    away.loses_answer = away.is_unavailable = False
    assert newest(store) == (2 if is_made else 1)
    record.retain([1])
    assert newest(store) == 1, "first the entry goes, then its files"
    record.publish(manifest_of(3))
    assert newest(store) == 3


def test_an_entry_that_was_unsure_and_is_anothers_fences(store: RecordFiles) -> None:
    """A run that was taken over meanwhile would remove what its successor needs."""
    away = Away(store)
    record = JobRecord(away, "a job", pause=lambda seconds: None)
    record.publish(manifest_of(1))
    away.is_unavailable = True
    with pytest.raises(OSError, match="away"):
        record.publish(manifest_of(2))
    claimed(store)
    away.is_unavailable = False
    for _ in range(2):
        with pytest.raises(FencedError, match="another run"):
            record.retain([])


def test_a_run_that_fell_back_is_fenced_off(store: RecordFiles) -> None:
    """The run after it would get the same epoch, and both would take the other's entries for their own."""
    JobRecord(store, "a job").publish(manifest_of(1, epoch=1))
    run = claimed(store)
    run.publish(manifest_of(2, epoch=2))
    run.publish(manifest_of(1, epoch=1))
    run.retain([1])
    seen = read_record(store)
    assert seen is not None and seen.epoch == 2 and newest(store) == 1
    successor = claimed(store)
    assert successor.epoch == 3
    with pytest.raises(FencedError):
        run.publish(manifest_of(3, epoch=2))


def test_older_checkpoints_are_known_to_who_takes_over(store: RecordFiles) -> None:
    """If the newest checkpoint is damaged, there would be nothing to fall back to."""
    record = JobRecord(store, "a job")
    for number in (1, 2, 3):
        record.publish(manifest_of(number))
    assert newest(store) == 3 and [older.checkpoint_id for older in older_in(store, 3)] == [1, 2]
    record.publish(manifest_of(2))
    assert newest(store) == 2 and [older.checkpoint_id for older in older_in(store, 2)] == [1], "it fell back to 2"


def damaged(store: RecordFiles, tmp_path: Path, number: int, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "job" / "record" / f"{number:08d}"
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-4],
        lambda data: data.replace(b'"epoch": 2', b'"epoch": 3'),
        lambda data: data.replace(b'"kind": "', b'"kind": "\x80'),
    ],
)
def test_a_damaged_entry_is_told(store: RecordFiles, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    """A job would silently continue from an older checkpoint, or share its epoch with another run."""
    JobRecord(store, "a job").publish(manifest_of(1))
    claimed(store)
    damaged(store, tmp_path, 2, change)
    seen = read_record(store)
    assert seen is not None and "entry 2 of the job's record is damaged" in seen.damaged
    assert newest(store) == 1 and claimed(store).epoch > 2


def test_entries_that_have_changed_places_are_told(store: RecordFiles, tmp_path: Path) -> None:
    """A job would continue from the older of two checkpoints, and repeat later commits."""
    record = JobRecord(store, "a job")
    for number in (1, 2):
        record.publish(manifest_of(number))
    one, other = (tmp_path / "job" / "record" / f"{number:08d}" for number in (1, 2))
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    seen = read_record(store)
    assert seen is not None and seen.checkpoint is None and "it holds entry 1" in seen.damaged


def test_where_there_are_no_links_it_is_looked_first() -> None:
    """Each entry of an object store would replace the one before it."""
    store = record_in(f"memory://records-{uuid.uuid4().hex}/job")
    former = JobRecord(store, "a job")
    former.publish(manifest_of(1))
    run = claimed(store)
    with pytest.raises(FencedError):
        former.publish(manifest_of(2))
    run.publish(manifest_of(2))
    store.remove(99)
    assert newest(store) == 2


def test_a_claim_that_comes_late_does_not_count(store: RecordFiles) -> None:
    """The number of a subsumed entry is free again: two runs would continue without finding each other."""
    run = JobRecord(store, "a job")
    run.publish(manifest_of(1))
    seen = read_record(store)
    for number in (2, 3):
        run.publish(manifest_of(number))
        run.retain([number])
    assert store.numbers() == [3]
    with pytest.raises(CheckpointError, match="has continued in the meantime"):
        JobRecord.claim(store, "a job", seen)
    run.publish(manifest_of(4))
    assert newest(store) == 4


def test_a_claim_that_another_has_seen_stays(store: RecordFiles) -> None:
    """Its number would be free for the run that both took over, which would continue in parallel to the last one."""
    former = JobRecord(store, "a job")
    former.publish(manifest_of(1))
    runs: list[JobRecord] = []
    with pytest.raises(CheckpointError, match="has continued in the meantime"):
        JobRecord.claim(Interrupted(store, lambda: runs.append(claimed(store))), "a job", read_record(store))
    with pytest.raises(FencedError):
        former.publish(manifest_of(2))
    runs[0].publish(manifest_of(2))
    assert newest(store) == 2


def test_a_job_without_a_checkpoint_can_be_claimed(store: RecordFiles) -> None:
    """A run that was paused before its first checkpoint would publish it after the next run took over."""
    former = JobRecord.try_to_claim(store, "a job", EMPTY_RECORD)
    run = claimed(store)
    assert former is not None and (former.epoch, run.epoch) == (2, 3)
    with pytest.raises(FencedError):
        former.publish(manifest_of(1))
    run.publish(manifest_of(1))
    assert newest(store) == 1


class CountedStore:
    """A record that counts how often it is listed and read."""

    def __init__(self, store: RecordFiles) -> None:
        self.store = store
        self.asked = 0
        self.create, self.remove = store.create, store.remove

    def numbers(self) -> list[int]:
        self.asked += 1
        return self.store.numbers()

    def read(self, number: int) -> bytes:
        self.asked += 1
        return self.store.read(number)


def test_a_checkpoint_is_forgotten_without_a_look_at_all_others(store: RecordFiles) -> None:
    """With a thousand retained checkpoints the driver would list and read them each time one completes."""
    counted = CountedStore(store)
    record = JobRecord(counted, "a job")
    for number in range(1, 31):
        record.publish(manifest_of(number))
    record.forget(1)
    counted.asked = 0
    for number in range(2, 21):
        record.publish(manifest_of(number + 30))
        record.forget(number)
    assert counted.asked == 0
    assert store.numbers() == list(range(21, 50))


def test_an_entry_that_was_reported_as_failed_is_forgotten_with_its_checkpoint(store: RecordFiles) -> None:
    """A checkpoint that was discarded would stay on record, and a run that takes the job over would look for it."""
    record = JobRecord(store, "a job", pause=lambda seconds: None)
    record.publish(manifest_of(1))
    record.publish(manifest_of(2))
    record.forget(1)
    # Created though the run does not know of it, as after a write that failed and came late.
    late = JobRecord(store, "a job", last=2)
    late.publish(manifest_of(3))
    record.publish(manifest_of(4))
    record.forget(3)
    assert [manifest.checkpoint_id for manifest in checkpoints_in(store)] == [2, 4]
