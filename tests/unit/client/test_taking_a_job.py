"""A run takes its job: its record, its lease, and what is said if they can't be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.checkpoint.manifests import manifest_of

from penstock.checkpoint.job_record import JobRecord
from penstock.checkpoint.latest import latest_of
from penstock.checkpoint.storage import record_in
from penstock.client.start_point import StartPoint, take_job
from penstock.common.configuration import Configuration
from penstock.common.errors import CheckpointError


def configured(directory: Path) -> Configuration:
    return Configuration.from_dict(
        {"execution.checkpointing.dir": str(directory), "execution.checkpointing.interval": "1 h"}
    )


def test_a_directory_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    """The user would read a traceback of a library, and not which setting is wrong."""
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"Does execution\.checkpointing\.dir name a directory") as raised:
        take_job(StartPoint(), "a" * 32, "job", configured(tmp_path / "file"), True, lambda: None)
    assert f"{tmp_path}/file/{'a' * 32}" in str(raised.value)


def test_a_job_that_can_be_read_and_not_be_written_is_named(tmp_path: Path) -> None:
    """The same, for one that goes on from where another user's has ended."""
    JobRecord(record_in(str(tmp_path / ("a" * 32))), "job").publish(manifest_of(1, job_id="a" * 32, job_name="job"))
    latest = latest_of(str(tmp_path), "job")
    record = tmp_path / ("a" * 32) / "record"
    record.rename(tmp_path / "elsewhere")
    record.touch()
    with pytest.raises(CheckpointError, match=f"can't be written below .*{'a' * 32}"):
        take_job(StartPoint(latest.manifest, latest), "a" * 32, "job", configured(tmp_path), True, lambda: None)
