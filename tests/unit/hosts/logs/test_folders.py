"""Folders of logs: made, found, removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common.errors import JobError
from penstock.hosts.logs.folders import LockedFolder, find, is_locked, jobs_in
from penstock.hosts.logs.settings import LoggedJob, LogSettings


def settings(directory: Path, number: int, name: str = "job", retained: int = 20) -> LogSettings:
    job_id = f"{number:032x}"
    return LogSettings(LoggedJob(job_id, name, number), str(directory / job_id), 20, 1000, 1, retained)


def ended(directory: Path, number: int, name: str = "job", retained: int = 20) -> Path:
    LockedFolder(settings(directory, number, name, retained), starts_run=True).release()
    return directory / f"{number:032x}"


def test_folders_of_ended_jobs_are_removed_but_for_the_newest(tmp_path: Path) -> None:
    """Logs of a year of runs would fill the disk."""
    for number in range(5):
        ended(tmp_path, number)

    held = LockedFolder(settings(tmp_path, 5, retained=2), starts_run=True)

    assert [job.started_ms for _, job in jobs_in(tmp_path)] == [3, 4, 5]
    held.release()


def test_the_folder_of_a_running_job_stays(tmp_path: Path) -> None:
    """A job that runs for months would lose its log to those that come and go."""
    running = LockedFolder(settings(tmp_path, 0), starts_run=True)
    for number in range(1, 4):
        ended(tmp_path, number, retained=1)

    assert [job.started_ms for _, job in jobs_in(tmp_path)] == [0, 2, 3]
    assert is_locked(tmp_path / f"{0:032x}")
    running.release()
    assert not is_locked(tmp_path / f"{0:032x}")


def test_a_job_that_another_run_continues_logs_to_the_same_folder(tmp_path: Path) -> None:
    """The log of the previous run would be deleted, including its failure."""
    folder = ended(tmp_path, 1, "first")
    (folder / "driver.log").write_text("before")

    LockedFolder(settings(tmp_path, 1, "second"), starts_run=True).release()

    assert (folder / "driver.log").read_text() == "before"
    assert [job.name for _, job in jobs_in(tmp_path)] == ["second"]


def test_a_worker_elsewhere_makes_the_folder_too(tmp_path: Path) -> None:
    """On a machine of a cluster no driver has made it, and what workers log there would be lost, or stay forever."""
    for number in range(3):
        LockedFolder(settings(tmp_path, number, retained=1)).release()

    assert [job.started_ms for _, job in jobs_in(tmp_path)] == [1, 2]


def test_only_folders_of_logs_are_removed(tmp_path: Path) -> None:
    """`env.log.dir: /data` would delete the user's data."""
    (tmp_path / "data").mkdir()
    (tmp_path / f"{9:032x}").mkdir()
    ended(tmp_path, 1)
    ended(tmp_path, 2, retained=0)

    assert {path.name for path in tmp_path.iterdir()} == {"data", f"{9:032x}", f"{2:032x}"}


def test_a_link_to_a_folder_elsewhere_goes_with_it(tmp_path: Path) -> None:
    """`penstock logs` would name folders that do not exist any more."""
    default, chosen = tmp_path / "default", tmp_path / "chosen"
    target = ended(chosen, 1)
    default.mkdir()
    (default / target.name).symlink_to(target)
    (default / f"{7:032x}").symlink_to(chosen / f"{7:032x}")

    assert find(default, "job") == target
    ended(default, 2, retained=0)

    assert not (default / f"{7:032x}").is_symlink()
    assert not (default / target.name).is_symlink() and target.is_dir()


def test_a_job_is_found_by_id_prefix_and_name(tmp_path: Path) -> None:
    """A user would have to type thirty-two digits."""
    first, second = ended(tmp_path, 16 << 120, "flights"), ended(tmp_path, (16 << 120) + 1, "flights")
    other = ended(tmp_path, 255 << 120, "other")

    assert find(tmp_path, first.name) == first
    assert find(tmp_path, "flights") == second
    assert find(tmp_path, "ff") == other
    with pytest.raises(JobError, match="ids of several jobs begin with '10'"):
        find(tmp_path, "10")
    with pytest.raises(JobError, match=r"no logs of a job 'x'. Jobs with logs:\n.* flights"):
        find(tmp_path, "x")
    with pytest.raises(JobError, match="any other job of this user"):
        find(tmp_path / "none", "x")
