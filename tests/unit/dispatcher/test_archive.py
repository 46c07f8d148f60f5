"""What is kept of a job that has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cluster.rest_address import RestAddress
from penstock.common.errors import JobError
from penstock.dispatcher.archive import archive, read_archive


def test_there_is_none_of_a_job_that_could_not_be_asked(tmp_path: Path) -> None:
    """A job that has succeeded would fail since its figures could not be kept."""
    token = tmp_path / "token"
    token.write_text("secret")
    archive(RestAddress("http://127.0.0.1:9", str(token)), "job", tmp_path / "archive")
    archive(RestAddress("http://127.0.0.1:9", str(tmp_path / "gone")), "job", tmp_path / "archive")
    assert read_archive(tmp_path / "archive") is None
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_a_damaged_one_is_named(tmp_path: Path) -> None:
    """Its user would take a job that succeeded for one of which nothing was ever kept."""
    file = tmp_path / "archive"
    file.write_bytes(b'{"archive": [{"path": "/jobs/overview", "js')
    with pytest.raises(JobError, match=f"{file}, is damaged"):
        read_archive(file)
    file.write_bytes(b'{"archive": [{"path": "/jobs/a", "json": "\xff"}]}')
    with pytest.raises(JobError, match=f"{file}, is damaged"):
        read_archive(file)
    file.unlink()
    file.mkdir()
    with pytest.raises(JobError, match=f"{file}, can't be read: Is a directory"):
        read_archive(file)
    file.rmdir()
    file.write_bytes(b'{"archive": [{"path": "/jobs/a", "json": "{}"}]}')
    kept = read_archive(file)
    assert kept is not None
    assert (kept.find("/jobs/a"), kept.find("/jobs/b")) == (b"{}", None)
