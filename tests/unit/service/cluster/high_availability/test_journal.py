"""The journal of a cluster in a shared folder: what former leaders write never counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs
from tests.unit.engine.checkpoint.interrupted_store import Interrupted

from penstock.common.errors import ConfigurationError
from penstock.common.files.exclusive_creation import exclusive_creation
from penstock.engine.checkpoint.record_files import DIRECTORY, RecordFiles
from penstock.engine.checkpoint.storage import record_in
from penstock.service.cluster.high_availability.journal import Journal
from penstock.service.cluster.high_availability.pointers import NotLeadingError


@pytest.fixture
def store(tmp_path: Path) -> RecordFiles:
    return record_in(str(tmp_path))


def leading(store: RecordFiles) -> Journal:
    journal = Journal(store)
    assert journal.claim(journal.read().term + 1)
    return journal


def test_the_next_leader_finds_what_was_written(store: RecordFiles) -> None:
    """Jobs would be gone with the process that has taken them."""
    first = leading(store)
    first.write({"a": "state-1-1"})
    first.write({"a": "state-1-2", "b": "state-1-1"})
    second = leading(store)
    assert second.jobs == {"a": "state-1-2", "b": "state-1-1"}
    assert second.read().term == 2


def test_a_former_leader_writes_nothing(store: RecordFiles) -> None:
    """A process that was stopped for a minute would undo what its successor has done."""
    former = leading(store)
    former.write({"a": "state-1-1"})
    former.check()
    leader = leading(store)
    leader.write({"a": "state-2-1"})
    for _ in range(2):
        with pytest.raises(NotLeadingError):
            former.write({"a": "state-1-2"})
        with pytest.raises(NotLeadingError):
            former.check()
    leader.check()
    assert Journal(store).read().jobs == {"a": "state-2-1"}


def test_of_two_that_claim_one_leads(store: RecordFiles) -> None:
    """Both would start all jobs."""
    one, other = Journal(store), Journal(store)
    one.read()
    other.read()
    assert one.claim(1)
    assert not other.claim(1)
    assert other.read().term == 1


def test_a_claim_that_comes_late_does_not_count(store: RecordFiles) -> None:
    """Its number is free again, since its entry was removed: there would be two leaders, neither of which finds out."""
    leader = leading(store)
    late = Journal(store)
    late.read()
    for number in range(200):
        leader.write({"a": f"state-1-{number}"})
    assert min(set(store.numbers()) - {1}) > 2, "the number that it is about to take is free"
    assert not late.claim(2)
    leader.write({"a": "state-1-200"})
    assert Journal(store).read().jobs == {"a": "state-1-200"}


def test_a_claim_that_another_has_seen_stays(store: RecordFiles) -> None:
    """Its number would be free for the leader before both, which would lead beside the last one."""
    former = leading(store)
    former.write({"a": "state-1-1"})
    leaders: list[Journal] = []
    between = Journal(Interrupted(store, lambda: leaders.append(leading(store))))
    assert not between.claim(between.read().term + 1)
    with pytest.raises(NotLeadingError):
        former.write({"a": "state-1-2"})
    leaders[0].write({"a": "state-3-1"})
    assert Journal(store).read().jobs == {"a": "state-3-1"}


def test_old_entries_are_removed_and_claims_are_not(store: RecordFiles) -> None:
    """The folder would grow with each change of a job; or a former leader find the number free that it tries."""
    former = leading(store)
    for _ in range(40):
        former.write({})
    leader = leading(store)
    for _ in range(200):
        leader.write({})
    assert len(store.numbers()) < 40
    with pytest.raises(NotLeadingError):
        former.write({"a": "state-1-1"})


class LosesAnswers(RecordFiles):
    """Files of which each is created, and that is reported as failed: as by a network that breaks."""

    broken = False

    def create(self, number: int, data: bytes) -> bool:
        """Raises OSError behind it."""
        created = super().create(number, data)
        if self.broken:
            raise OSError("no answer")
        return created


def test_a_write_that_was_reported_as_failed_may_count(tmp_path: Path) -> None:
    """A leader would take its own entry for another one's, and end, after each fault of the network."""
    system = fs.LocalFileSystem()
    store = LosesAnswers(system, str(tmp_path), lambda: exclusive_creation(str(tmp_path), system))
    leader = leading(store)
    store.broken = True
    with pytest.raises(OSError, match="no answer"):
        leader.write({"a": "state-1-1"})
    store.broken = False
    leader.check()
    leader.write({"a": "state-1-2"})
    assert store.numbers() == [1, 2, 3]
    assert Journal(store).read().jobs == {"a": "state-1-2"}


def test_a_damaged_entry_is_named(store: RecordFiles, tmp_path: Path) -> None:
    """A cluster would forget its jobs, or end with a traceback."""
    leading(store).write({"a": "state-1-1"})
    path = tmp_path / "record" / "00000002"
    path.write_bytes(path.read_bytes().replace(b"state-1-1", b"state-1-2"))
    with pytest.raises(ConfigurationError, match="entry 2 of the cluster's journal can't be read"):
        Journal(store).read()


def test_a_folder_that_is_gone_ends_the_lead(store: RecordFiles, tmp_path: Path) -> None:
    """A leader would go on with jobs that the next one does not find, or never return."""
    leader = leading(store)
    leader.write({"a": "state-1-1"})
    for path in (tmp_path / "record").iterdir():
        path.unlink()
    (tmp_path / "record").rmdir()
    with pytest.raises(NotLeadingError):
        leader.write({"a": "state-1-2"})


def test_without_its_folder_nobody_leads(store: RecordFiles, tmp_path: Path) -> None:
    """A machine that loses the shared folder would have a leader of its own, in the empty folder below the mount."""
    leader, standby = leading(store), Journal(store)
    leader.write({"a": "state-1-1"})
    standby.read()
    mounted = tmp_path / DIRECTORY
    mounted.rename(tmp_path / "elsewhere")
    for is_there in (False, True):
        if is_there:
            mounted.mkdir()
        for call in (standby.read, leader.check, lambda: leader.write({"a": "state-1-2"})):
            with pytest.raises((OSError, NotLeadingError), match="entry 2 of the cluster's journal is missing"):
                call()
    # Another one, that knows nothing, leads there.
    leading(store)
    with pytest.raises(NotLeadingError, match="not mounted here"):
        leader.write({"a": "state-1-3"})
    (mounted / "00000001").unlink()
    mounted.rmdir()
    (tmp_path / "elsewhere").rename(mounted)
    leader.write({"a": "state-1-4"})
    assert standby.read().jobs == {"a": "state-1-4"}
