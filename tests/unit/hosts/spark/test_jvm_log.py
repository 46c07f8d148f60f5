"""Where the log of Spark's JVM is."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.hosts.logs.folders import is_locked
from penstock.hosts.logs.settings import LoggedJob, LogSettings
from penstock.hosts.spark.driver.jvm_log import JvmLog


def settings(directory: Path, number: int) -> LogSettings:
    job_id = f"{number:032x}"
    return LogSettings(LoggedJob(job_id, "job", number), str(directory / job_id), 20, 1000, 3, 20)


@pytest.fixture(autouse=True)
def nothing_is_held_afterwards() -> None:
    JvmLog(None)


def test_it_is_in_the_folder_of_the_first_job(tmp_path: Path) -> None:
    """Its log would be removed while it runs, or a second session would name a file to which no process writes."""
    first, second = settings(tmp_path, 1), settings(tmp_path, 2)
    started = JvmLog(first)
    one_more = JvmLog(second, jvm_runs=True)
    path = f"{first.folder}/jvm.log"

    assert started.environment == {
        "PENSTOCK_JVM_LOG": path, "PENSTOCK_JVM_LOG_BYTES": "1000", "PENSTOCK_JVM_LOG_MAX": "3"
    }  # fmt: skip
    assert list(started.settings.values()) == list(one_more.settings.values()) == [path]
    assert is_locked(Path(first.folder))


def test_another_jvm_has_another_log(tmp_path: Path) -> None:
    """The folder of a job that has ended would stay forever."""
    JvmLog(settings(tmp_path, 1))
    restarted = JvmLog(settings(tmp_path, 2))

    assert not is_locked(tmp_path / f"{1:032x}")
    assert restarted.environment["PENSTOCK_JVM_LOG"] == str(tmp_path / f"{2:032x}" / "jvm.log")


def test_without_logs_there_is_no_log_file() -> None:
    """Spark would write to the terminal."""
    log = JvmLog(None)

    assert (log.environment, log.settings) == ({}, {})
    assert log.java_options.endswith("log4j2.properties")
