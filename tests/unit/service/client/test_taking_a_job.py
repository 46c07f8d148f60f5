"""A run takes its job: its record, its lease, and what is said if they can't be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.configuration import Configuration
from penstock.common.errors import CheckpointError, ConfigurationError
from penstock.engine.checkpoint.job_record import JobRecord
from penstock.engine.checkpoint.latest import Latest, latest_of
from penstock.engine.checkpoint.storage import record_in
from penstock.service.client.start_point import StartPoint, check_place, take_job


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


def test_a_directory_that_can_not_be_made_is_told_before_spark_starts(tmp_path: Path) -> None:
    """The user would wait for Spark, ten seconds or a minute on a cluster, to read it."""
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=f"can't be written below {tmp_path}/file/checkpoints: .*Does execution"):
        check_place(StartPoint(), configured(tmp_path / "file" / "checkpoints"), has_session=False)
    check_place(StartPoint(), configured(tmp_path / "new" / "checkpoints"), has_session=False)
    assert not list((tmp_path / "new" / "checkpoints").iterdir()), "trying leaves nothing"


def test_a_job_that_is_gone_on_with_is_tried_itself(tmp_path: Path) -> None:
    """Its directory may be another user's, in one where both may write."""
    latest = Latest("", str(tmp_path / "file"), manifest_of(1), None)
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=f"can't be written below {tmp_path}/file:"):
        check_place(StartPoint(latest.manifest, latest), configured(tmp_path), has_session=False)


@pytest.mark.parametrize(("master", "has_session"), [("local[2]", False), ("spark://host:7077", True)])
def test_a_cluster_needs_a_directory_that_all_see(master: str, has_session: bool) -> None:
    """It would be told when executors have come; on one machine nobody has to name a directory."""
    settings = {"execution.checkpointing.interval": "1 s", "spark.master": "spark://host:7077"}
    with pytest.raises(ConfigurationError, match=r"all executors see: set execution\.checkpointing\.dir"):
        check_place(StartPoint(), Configuration.from_dict(settings), has_session=False)
    check_place(StartPoint(), Configuration.from_dict(settings | {"spark.master": master}), has_session)


def test_a_job_that_can_be_read_and_not_be_written_is_named(tmp_path: Path) -> None:
    """The same, for one that goes on from where another user's has ended."""
    JobRecord(record_in(str(tmp_path / ("a" * 32))), "job").publish(manifest_of(1, job_id="a" * 32, job_name="job"))
    latest = latest_of(str(tmp_path), "job")
    record = tmp_path / ("a" * 32) / "record"
    record.rename(tmp_path / "elsewhere")
    record.touch()
    with pytest.raises(CheckpointError, match=f"can't be written below .*{'a' * 32}"):
        take_job(StartPoint(latest.manifest, latest), "a" * 32, "job", configured(tmp_path), True, lambda: None)
