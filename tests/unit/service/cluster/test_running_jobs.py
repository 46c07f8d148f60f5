"""The jobs that run on this machine: commands find them by id or name, and none that has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.common.errors import JobError
from penstock.engine.rpc.keys import ControlAddress
from penstock.hosts.live_process import start_mark_of
from penstock.service.cluster.running_jobs import JobRegistry, RunningJob, StartingJob

ADDRESS = ControlAddress("tcp://127.0.0.1:1", b"server", b"client \xff", b"secret")


@pytest.fixture
def registry(tmp_path: Path) -> JobRegistry:
    return JobRegistry({"XDG_CACHE_HOME": str(tmp_path)})


def files_in(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("*.json"))


def job(job_id: str, name: str = "counts", started_ms: int = 0, pid: int = os.getpid()) -> RunningJob:
    return RunningJob(job_id, name, pid, started_ms, ADDRESS, beginning=start_mark_of(pid))


def ended_process() -> int:
    """The number of a process that is there no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_jobs_are_listed_as_long_as_they_run(registry: JobRegistry) -> None:
    """`penstock jobs` would show none, jobs that have ended, or a new one above an old one."""
    assert registry.jobs() == []
    registry.add(job("b", started_ms=20))
    registry.add(job("a", started_ms=30))
    registry.add(job("c", started_ms=10))
    assert [one.job_id for one in registry.jobs()] == ["c", "b", "a"]
    assert registry.jobs()[0] == job("c", started_ms=10), "with the keys of its control port"
    registry.remove("b", os.getpid())
    registry.remove("b", os.getpid())
    assert [one.job_id for one in registry.jobs()] == ["c", "a"]


def test_only_the_user_can_read_the_keys_of_a_job(registry: JobRegistry, tmp_path: Path) -> None:
    """Every user of the machine could cancel the job, or take its savepoints."""
    umask = os.umask(0)
    try:
        registry.add(job("a"))
    finally:
        os.umask(umask)
    (path,) = files_in(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_job_that_is_registered_twice_has_its_last_address(registry: JobRegistry) -> None:
    """After a restart of the driver commands would go to the port of the one before; or the file could not be read."""
    registry.add(job("a", name="a much longer name than the second time"))
    registry.add(job("a", name="short"))
    assert [one.name for one in registry.jobs()] == ["short"]


def test_drivers_that_were_killed_are_forgotten(registry: JobRegistry, tmp_path: Path) -> None:
    """A name would be ambiguous for ever, because a job of that name was killed once."""
    registry.add(job("killed", pid=ended_process()))
    registry.add(job("runs"))
    assert [one.job_id for one in registry.jobs()] == ["runs"]
    assert [path.stem for path in files_in(tmp_path)] == ["runs"]


def test_who_asks_for_a_job_whose_process_has_just_ended_is_told_so(registry: JobRegistry) -> None:
    """ "No job runs" while another leader starts it again: a user would submit it a second time."""
    gone = ended_process()
    registry.add(job("killed", name="flights", pid=gone))
    registry.add(job("other"))
    with pytest.raises(JobError, match=rf"the process of the job 'flights', {gone}, .*penstock list.*-s latest"):
        registry.find("flights")
    with pytest.raises(JobError, match="no job 'flights' runs on this machine"):
        registry.find("flights")


@pytest.mark.skipif(not start_mark_of(os.getpid()), reason="this system does not say when a process began")
def test_another_process_with_the_number_of_a_killed_one_is_no_job(registry: JobRegistry, tmp_path: Path) -> None:
    """A job would not answer for as long as some other program runs, and its name be ambiguous."""
    registry.add(job("killed"))
    (path,) = files_in(tmp_path)
    before = start_mark_of(os.getpid())
    path.write_bytes(path.read_bytes().replace(before.encode(), b"1"))
    assert registry.jobs() == [] and files_in(tmp_path) == []


def test_a_driver_of_another_user_runs(registry: JobRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cache directory that is shared, the jobs of others would be deleted from the list."""

    def forbidden(pid: int, signal: int) -> None:
        raise PermissionError("not yours")

    registry.add(job("a"))
    monkeypatch.setattr(os, "kill", forbidden)
    assert [one.job_id for one in registry.jobs()] == ["a"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"job_id": "\xff"}', b'{"job_id": "x"}', b"\xff\xfe", b"[]", b'{"job_id": 1, "name": 2, "pid": 3}'],
)
def test_a_file_that_is_half_written_hides_no_other(registry: JobRegistry, tmp_path: Path, content: bytes) -> None:
    """All commands would fail while one job is starting."""
    registry.add(job("whole"))
    (path,) = files_in(tmp_path)
    path.with_name("half.json").write_bytes(content)
    path.with_name("directory.json").mkdir()
    assert [one.job_id for one in registry.jobs()] == ["whole"]
    assert path.with_name("half.json").exists(), "it may be complete in a moment"


def test_a_job_is_found_by_id_by_name_or_by_the_beginning_of_its_id(registry: JobRegistry) -> None:
    """Users would have to type 32 digits, or would stop the wrong job."""
    registry.add(job("abc1", "counts"))
    registry.add(job("abd2", "sums"))
    registry.add(job("sums-of-another", "others"))
    assert registry.find("abd2").name == "sums"
    assert registry.find("counts").job_id == "abc1"
    assert registry.find("abc").job_id == "abc1"
    assert registry.find("sums").job_id == "abd2", "a whole name comes before the beginning of an id"


def test_a_reference_to_no_job_or_to_several_is_explained(registry: JobRegistry) -> None:
    """A user would have one of two jobs stopped by chance, or would not learn which there are."""
    with pytest.raises(JobError, match="no job 'x' runs on this machine, and no other job of this user"):
        registry.find("x")
    registry.add(job("abc1", "counts", 1))
    registry.add(job("abd2", "counts", 2))
    registry.add(job("zzz", "sums", 3))
    for reference in ("counts", "ab"):
        with pytest.raises(JobError, match=f"'{reference}' matches several jobs") as raised:
            registry.find(reference)
        assert str(raised.value).endswith("\n  abc1  counts\n  abd2  counts")
    with pytest.raises(
        JobError, match=r"no job 'y' runs on this machine. Running jobs:\n  abc1  counts\n.*\n  zzz  sums"
    ):
        registry.find("y")


@pytest.mark.parametrize("reference", ["", " "])
def test_nothing_is_the_beginning_of_no_id(registry: JobRegistry, reference: str) -> None:
    """`penstock cancel "$JOB"`, where JOB is not set, would cancel the one that runs, and remove its checkpoints."""
    registry.add(job("a"))
    with pytest.raises(JobError, match="got an empty text"):
        registry.find(reference)


def test_a_name_moves_no_line_of_the_terminal(registry: JobRegistry) -> None:
    """A job's name may have anything in it: the list of jobs would show others, or nothing."""
    registry.add(job("a", name="one\n\x1b[2Jtwo"))
    with pytest.raises(JobError) as raised:
        registry.find("b\x1b[1A")
    assert str(raised.value) == "no job 'b [1A' runs on this machine. Running jobs:\n  a  one  [2Jtwo"


def test_another_registry_finds_what_one_has_added(registry: JobRegistry, tmp_path: Path) -> None:
    """`penstock savepoint` is another process than the driver: it would find no job."""
    registry.add(job("a"))
    assert JobRegistry({"XDG_CACHE_HOME": str(tmp_path)}).find("a") == job("a")
    assert JobRegistry({"XDG_CACHE_HOME": str(tmp_path / "other")}).jobs() == []
    assert JobRegistry({"HOME": str(tmp_path), "XDG_CACHE_HOME": "relative"}).jobs() == []


def test_a_run_that_was_taken_over_leaves_its_successor_alone(registry: JobRegistry) -> None:
    """`penstock list` and `cancel` would not find the run that has the job now."""
    registry.add(job("a", pid=ended_process()))
    registry.add(job("a"))
    registry.remove("a", ended_process())
    assert registry.find("a") == job("a")
    registry.remove("a", os.getpid())
    assert registry.jobs() == []


def test_a_job_runs_where_nothing_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In a container with a read-only home no job would start, for the sake of `penstock list`."""
    (tmp_path / "file").touch()
    registry = JobRegistry({"XDG_CACHE_HOME": str(tmp_path / "file")})
    registry.add(job("a" * 32))
    assert "will not find the job 'counts'" in caplog.text and str(tmp_path / "file") in caplog.text
    assert registry.jobs() == []
    registry.remove("a" * 32, os.getpid())


def test_a_job_that_starts_is_known_and_takes_no_commands(registry: JobRegistry) -> None:
    """Who asks while Spark starts would be told that no job runs, and start it again."""
    started = StartingJob("a" * 32, "flights", os.getpid(), 5)
    registry.add_starting(started)
    assert [one.job_id for one in registry.starting()] == ["a" * 32] and registry.jobs() == []
    for reference in ("flights", "aaaa"):
        with pytest.raises(JobError, match="'flights' is starting and accepts no commands yet"):
            registry.find(reference)
    registry.remove("a" * 32, os.getpid() + 1)
    assert registry.starting(), "that was another run of it"
    registry.add(job("a" * 32, "flights"))
    assert registry.starting() == [] and registry.find("flights").job_id == "a" * 32


def test_a_job_that_begins_to_run_while_it_is_looked_for_is_found(tmp_path: Path) -> None:
    """A command would say that no such job runs, at the moment when it begins to accept commands."""

    class Begins(JobRegistry):
        """Runs its job after the first look at its files."""

        def starting(self) -> list[StartingJob]:
            found = super().starting()
            self.add(job("a" * 32, "flights"))
            return found

        def _looked_at(self, forgets: bool = True) -> tuple[list[RunningJob], list[RunningJob]]:
            found = super()._looked_at(forgets)
            self.add(job("a" * 32, "flights"))
            return found

    registry = Begins({"XDG_CACHE_HOME": str(tmp_path)})
    registry.add_starting(StartingJob("a" * 32, "flights", os.getpid(), 5))
    assert registry.find("flights").job_id == "a" * 32


def test_a_job_that_could_not_start_is_forgotten(registry: JobRegistry, tmp_path: Path) -> None:
    """It would be said to start for ever."""
    registry.add_starting(StartingJob("a" * 32, "flights", os.getpid(), 5))
    registry.remove("a" * 32, os.getpid())
    registry.add_starting(StartingJob("b" * 32, "killed", ended_process(), 5))
    assert registry.starting() == []
    assert files_in(tmp_path) == []
