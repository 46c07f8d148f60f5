"""Checkpoints in an object store: one run at a time there, too, and a job's life from its first file to its end."""

from __future__ import annotations

import logging
import threading

import boto3
import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.common.errors import CheckpointError, FencedError
from penstock.common.files import exclusive_creation
from penstock.engine.checkpoint.job_record import JobRecord, read_record
from penstock.engine.checkpoint.latest import latest_of
from penstock.engine.checkpoint.storage import DirectoryStorage, record_in

pytestmark = pytest.mark.connectors
_MEBI = 1 << 20


def test_of_many_that_create_one_does(bucket: str) -> None:
    """Two `-s latest` at the same moment would both run."""
    JobRecord(record_in(f"{bucket}/job"), "a job").publish(manifest_of(1))
    seen = read_record(record_in(f"{bucket}/job"))
    start, results = threading.Barrier(8), []

    def take() -> None:
        store = record_in(f"{bucket}/job")
        start.wait()
        try:
            results.append(JobRecord.claim(store, "a job", seen).epoch)
        except (CheckpointError, OSError):
            results.append(0)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0] * 7 + [2]


def test_a_job_from_its_first_file_to_its_end(bucket: str) -> None:
    """A suspended driver would publish in addition to its successor, or restart the record of a finished job."""
    former = DirectoryStorage(f"{bucket}/job")
    file = former.create("1-x", shared=True)
    file.write(b"content")
    file.close()
    origin = manifest_of(1, [file.path])
    former.publish(origin)
    latest = latest_of(bucket, "a job")
    assert latest.path == f"{bucket}/job/chk-1" and latest.content is not None
    record = JobRecord.claim(record_in(f"{bucket}/job"), "a job", latest.content)
    run = DirectoryStorage(f"{bucket}/job", record, newest=1)
    run.publish(manifest_of(2, [file.path], epoch=2))
    former.sweep([origin])
    assert latest_of(bucket, "a job").path == f"{bucket}/job/chk-2"
    assert run.read(file.path, 0, 99) == b"content"
    with pytest.raises(FencedError):
        former.publish(manifest_of(2, [file.path]))
    run.record_end("FINISHED")
    run.delete()
    with pytest.raises(CheckpointError, match="is FINISHED"):
        latest_of(bucket, "a job")
    late = DirectoryStorage(f"{bucket}/job", JobRecord(record_in(f"{bucket}/job"), "a job", last=1))
    with pytest.raises(FencedError):
        late.publish(manifest_of(3, epoch=1))


def test_an_object_is_written_once_under_its_final_name(bucket: str) -> None:
    """A rename in an object store is a copy: each byte would be written twice, and above 5 GB refused."""
    store, name = boto3.client("s3"), bucket.removeprefix("s3://")
    store.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    storage = DirectoryStorage(f"{bucket}/job")
    writer = storage.create("1-keyed", shared=True)
    writer.write(b"content")
    assert "Contents" not in store.list_objects_v2(Bucket=name, Prefix="job/shared/1-keyed"), "it is not complete"
    writer.close()
    storage.publish(manifest_of(1, [writer.path]))
    found = store.list_object_versions(Bucket=name)
    files = [version["Key"] for version in found["Versions"] if not version["Key"].endswith("/")]
    assert sorted(files) == ["job/chk-1/_metadata", "job/record/00000001", "job/shared/1-keyed"]
    assert "DeleteMarkers" not in found


@pytest.mark.parametrize(("size", "parts"), [(10 * _MEBI - 1, 1), (10 * _MEBI, 1), (10 * _MEBI + 1, 2)])
def test_a_large_object_is_written_in_parts(bucket: str, size: int, parts: int) -> None:
    """A request takes at most 5 GB: the first larger state could not be stored."""
    storage = DirectoryStorage(f"{bucket}/job")
    writer = storage.create("1-keyed", shared=True)
    for start in range(0, size, _MEBI):
        writer.write(bytes(min(_MEBI, size - start)))
    writer.close()
    assert storage.read(writer.path, size - 2, 10) == bytes(2)
    found = boto3.client("s3").head_object(Bucket=bucket.removeprefix("s3://"), Key="job/shared/1-keyed")
    assert found["ContentLength"] == size
    # The tag of an object in parts ends with their number.
    assert found["ETag"].strip('"').endswith(f"-{parts}")


def test_a_file_that_was_aborted_is_not_there(bucket: str) -> None:
    """The rest of a failed checkpoint would stay for ever."""
    storage = DirectoryStorage(f"{bucket}/job")
    writer = storage.create("1-keyed", shared=True)
    writer.write(b"half")
    writer.abort()
    with pytest.raises(FileNotFoundError):
        storage.read(writer.path, 0, 4)


def test_without_boto3_it_says_what_is_missing(
    bucket: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A user would believe to be safe."""
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with caplog.at_level(logging.WARNING, exclusive_creation.__name__):
        store = record_in(f"{bucket}/job")
        created = store.create(1, b"one")
    assert "pip install 'penstock-streams[s3]'" in caplog.text
    assert created and not store.create(1, b"other") and store.read(1) == b"one"


def test_a_store_that_refuses(bucket: str) -> None:
    """An error of the store would be taken for another run."""
    with pytest.raises(OSError, match="could not be written"):
        record_in(f"{bucket}-that-is-not-there/job").create(2, b"data")
