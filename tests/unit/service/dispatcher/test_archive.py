"""What is kept of a job that has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.unit.service.rest.served import Served

from penstock.common.errors import JobError
from penstock.engine.rpc.messages import Register
from penstock.engine.runtime.task.events import Acknowledge
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.archive import Archive, archive, read_archive, read_overview
from penstock.service.dispatcher.atomic_files import reserve_space


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
    with pytest.raises(JobError, match=f"cannot read the archive of the job, {file}: Is a directory"):
        read_archive(file)
    file.rmdir()
    file.write_bytes(b'{"archive": [{"path": "/jobs/a", "json": "{}"}]}')
    kept = read_archive(file)
    assert kept is not None
    assert (kept.find("/jobs/a"), kept.find("/jobs/b")) == (b"{}", None)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[Served, Archive]]:
    """A job that has taken some checkpoints, and what is kept of it."""
    (tmp_path / "served").mkdir()
    served = Served(tmp_path / "served")
    job = served.job.played
    for level, index in ((0, 0), (1, 0), (1, 1)):
        job.report(level, Register(), index=index)
    for _ in range(12):
        number = job.begins_checkpoint()
        for vertex, subtask in ((0, 0), (1, 0), (1, 1)):
            job.report(vertex, Acknowledge(vertex, subtask, number), index=subtask)
    job.waits(1_000)
    token = tmp_path / "token"
    token.write_text(served.endpoint.token)
    archive(RestAddress(served.endpoint.address.url, str(token)), "id", tmp_path / "archive")
    found = read_archive(tmp_path / "archive")
    assert found is not None
    yield served, found
    served.endpoint.close()


def test_what_is_kept_is_what_the_job_has_answered(kept: tuple[Served, Archive]) -> None:
    """Pages of a job that has ended would show errors where they showed its subtasks while it ran."""
    served, archived = kept
    vertex = served.vertex(1)
    paths = [
        "/jobs/id/accumulators", "/jobs/id/execution-result", f"{vertex}/subtasks/1", f"{vertex}/accumulators",
        f"{vertex}/subtasks/1/attempts/0", f"{vertex}/subtasks/accumulators",
        f"/jobs/id/checkpoints/details/12/subtasks/{vertex.rpartition('/')[2]}",
    ]  # fmt: skip
    for path in paths:
        answer = archived.find(path)
        assert answer is not None and json.loads(answer).keys() == served.get(path).keys(), path
    assert json.loads(archived.find(paths[-1]) or b"")["num_subtasks"] == 2


def asked(served: Served, what: str, body: dict[str, str]) -> str:
    status, _, answer = served.ask(f"/jobs/id/{what}", "POST", body)
    assert status == 202
    return str(json.loads(answer)["request-id"])


def test_outcomes_of_savepoints_are_kept(tmp_path: Path) -> None:
    """Who has stopped the job, and asks a minute later, would read that there was no such savepoint."""
    (tmp_path / "served").mkdir()
    served = Served(tmp_path / "served")
    for level, index in ((0, 0), (1, 0), (1, 1)):
        served.job.played.report(level, Register(), index=index)
    stop = asked(served, "stop", {"targetDirectory": "/s"})
    taken = asked(served, "checkpoints", {})
    served.job.savepoints[0][3].set_result("/s/savepoint-1")
    served.job.checkpoints[0][1].set_result("3")
    (tmp_path / "token").write_text(served.endpoint.token)
    archive(RestAddress(served.endpoint.address.url, str(tmp_path / "token")), "id", tmp_path / "archive")
    served.endpoint.close()
    found = read_archive(tmp_path / "archive")
    assert found is not None
    stopped = json.loads(found.find(f"/jobs/id/savepoints/{stop}") or b"{}")
    assert stopped == {"status": {"id": "COMPLETED"}, "operation": {"location": "/s/savepoint-1"}}
    assert json.loads(found.find(f"/jobs/id/checkpoints/{taken}") or b"{}")["operation"] == {"checkpointId": 3}


def test_attempts_before_the_last_are_kept(tmp_path: Path) -> None:
    """Where and when a task had failed would be gone with its job: who asks why it restarted asks afterwards."""
    (tmp_path / "served").mkdir()
    served = Served(tmp_path / "served")
    for level, index in ((0, 0), (1, 0), (1, 1)):
        served.job.played.report(level, Register(), index=index)
    served.job.played.fails(RuntimeError("away"))
    served.job.played.restarts()
    (tmp_path / "token").write_text(served.endpoint.token)
    archive(RestAddress(served.endpoint.address.url, str(tmp_path / "token")), "id", tmp_path / "archive")
    served.endpoint.close()
    found = read_archive(tmp_path / "archive")
    assert found is not None
    attempts = [found.find(f"{served.vertex(1)}/subtasks/1/attempts/{attempt}") for attempt in (0, 1)]
    assert [json.loads(one or b"{}").get("attempt") for one in attempts] == [0, 1]
    assert json.loads(attempts[0] or b"")["status"] == "CANCELED"


def test_on_a_full_disk_what_is_known_by_subtask_is_left_out(kept: tuple[Served, Archive], tmp_path: Path) -> None:
    """Nothing at all would be kept of a job with many subtasks, as there is no room for so much."""
    served, archived = kept
    file = tmp_path / "another"
    (tmp_path / ".another").mkdir()
    reserve_space(file, len(msgspec.json.encode(archived)) - 1)
    archive(RestAddress(served.endpoint.address.url, str(tmp_path / "token")), "id", file)
    found = read_archive(file)
    assert found is not None and found.find(f"{served.vertex(1)}/subtasktimes") is not None
    assert found.find(f"{served.vertex(1)}/subtasks/1") is None


def test_of_older_checkpoints_only_the_sums_are_kept(kept: tuple[Served, Archive]) -> None:
    """A hundred checkpoints of a thousand subtasks would be tens of megabytes, read for each answer about the job."""
    served, archived = kept
    vertex = served.vertex(1).rpartition("/")[2]
    assert archived.find("/jobs/id/checkpoints/details/1") is not None
    assert archived.find(f"/jobs/id/checkpoints/details/1/subtasks/{vertex}") is None


def test_the_overview_of_a_job_is_decoded_once(tmp_path: Path) -> None:
    """The list of all jobs would decode all that is known of hundreds of jobs each few seconds."""
    file = tmp_path / "archive"
    file.write_bytes(b'{"archive": [{"path": "/jobs/overview", "json": "{}"}]}')
    assert read_overview(file) == b"{}"
    stat = file.stat()
    file.write_bytes(b"x" * stat.st_size)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert read_overview(file) == b"{}"
    file.write_bytes(b'{"archive": [{"path": "/jobs/overview", "json": "[]"}, {"path": "/jobs/a", "json": "{}"}]}')
    assert read_overview(file) == b"[]", "another archive has been written"
    file.unlink()
    assert read_overview(file) is None
    file.write_bytes(b"damaged")
    with pytest.raises(JobError, match=f"{file}, is damaged"):
        read_overview(file)
