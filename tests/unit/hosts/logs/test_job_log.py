"""The log of a job in its driver."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError, JobCancelledError, JobError
from penstock.hosts.logs.job_log import JobLog

ID = "0123456789abcdef0123456789abcdef"


def log_of(tmp_path: Path, job_id: str = ID, **settings: str) -> JobLog:
    keys = {f"env.log.{key.replace('_', '-')}": value for key, value in settings.items()}
    return JobLog(Configuration.from_dict(keys), job_id, "flights", tmp_path / "logs")


def test_events_of_a_job_are_in_its_log(tmp_path: Path) -> None:
    """A user could not find out in the morning what a job did in the night."""
    log = log_of(tmp_path)
    log.events.info("checkpoint %d completed", 7)
    logging.getLogger("penstock.engine.checkpoint.storage").warning("a slow store")
    log.close()
    logging.getLogger("penstock.engine.checkpoint.storage").warning("after its end")

    lines = (tmp_path / "logs" / ID / "driver.log").read_text().splitlines()
    assert [re.sub(r"^\S+ \S+ ", "", line) for line in lines] == [
        f"INFO    [{ID[:8]}] penstock.job - checkpoint 7 completed",
        f"WARNING [{ID[:8]}] penstock.engine.checkpoint.storage - a slow store",
    ]


def test_a_line_that_can_not_be_written_has_escapes(tmp_path: Path) -> None:
    """The line that says why a job failed would be missing, for the name of a file in it."""
    log = log_of(tmp_path)
    log.events.error("no such file: %s", "caf\udce9")
    log.close()

    assert r"no such file: caf\udce9" in (tmp_path / "logs" / ID / "driver.log").read_text()


def test_the_level_is_a_setting(tmp_path: Path) -> None:
    """A checkpoint each second would bury the one line that counts."""
    log = log_of(tmp_path, level="WARN")
    log.events.info("unimportant")
    log.events.warning("important")
    log.close()

    assert "unimportant" not in (text := (tmp_path / "logs" / ID / "driver.log").read_text())
    assert "important" in text
    with pytest.raises(ConfigurationError, match=r"env\.log\.level"):
        log_of(tmp_path, level="LOUD")


def test_warnings_stay_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that configures no logging sees warnings, until a job starts: then they would go to a file only."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logs = [log_of(tmp_path), log_of(tmp_path, "f" * 32)]
    logging.getLogger("penstock.engine.rpc").warning("a lost slot")
    logs[0].events.info("a checkpoint")
    for log in logs:
        log.close()

    assert capsys.readouterr().err == "a lost slot\n"


def test_old_files_are_removed(tmp_path: Path) -> None:
    """A job that warns each second fills the disk in a year."""
    log = log_of(tmp_path, max_size="1kb", max="2")
    for number in range(100):
        log.events.info("line %d of so many that they do not fit", number)
    log.close()

    files = sorted(path.name for path in (tmp_path / "logs" / ID).glob("*.log*"))
    assert files == ["driver.log", "driver.log.1", "driver.log.2"]
    assert all(path.stat().st_size <= 1024 for path in (tmp_path / "logs" / ID).glob("*.log*"))


def test_a_failure_names_the_place_once(tmp_path: Path) -> None:
    """A user who does not know of the logs would not read them."""
    log = log_of(tmp_path, dir=str(tmp_path / "chosen"))
    error = JobError("failed")

    assert log.with_log_location(log.with_log_location(error)) is error
    assert error.__notes__ == [f"Logs of the job: {tmp_path / 'chosen' / ID}"]
    assert not hasattr(log.with_log_location(JobCancelledError("cancelled")), "__notes__")
    assert log.with_log_location(None) is None
    # By the id it is found all the same.
    assert (tmp_path / "logs" / ID).resolve() == tmp_path / "chosen" / ID
    log.close()


def test_a_directory_elsewhere_is_refused(tmp_path: Path) -> None:
    """A folder named `s3:` would appear in the working directory."""
    with pytest.raises(ConfigurationError, match=r"env\.log\.dir must be a local directory, got s3://b"):
        log_of(tmp_path, dir="s3://bucket/logs")


def test_a_job_runs_without_its_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A full or read-only disk would keep a job from running, for the sake of its log."""
    (tmp_path / "file").write_text("")
    log = log_of(tmp_path, dir=str(tmp_path / "file"))
    log.events.info("unheard")
    log.link_jvm("jvm.log")
    log.close()

    assert log.settings is None
    assert "cannot create the logs of the job 'flights'" in caplog.text
    assert not hasattr(log.with_log_location(JobError("failed")), "__notes__")


def test_lines_that_workers_send_are_stored_in_a_file(tmp_path: Path) -> None:
    """Lines of a machine that is gone would be gone, or fill the driver's disk."""
    log = log_of(tmp_path, max_size="1 kb", max="2")
    log.append_worker_lines(1, 3, "one\ntwo")
    log.append_worker_lines(1, 3, "three")
    folder = tmp_path / "logs" / ID
    assert (folder / "level-1-slot-3.log").read_text() == "one\ntwo\nthree\n"
    for _ in range(20):
        log.append_worker_lines(1, 3, "x" * 500)
    log.close()
    sizes = {path.name: path.stat().st_size for path in folder.glob("level-*")}
    assert sizes.keys() == {f"level-1-slot-3.log{end}" for end in ("", ".1", ".2")} and max(sizes.values()) <= 1024
