"""Files in an object store whose requests fail: each record is read once, written once, and nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

import boto3
import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.faulty_store import FaultyStore
from tests.unit.connectors.file_sinks import lines_below

from penstock.common.errors import PenstockError
from penstock.connectors.files.sink import FileCompactor, FileCompactStrategy, FileSink, RollingPolicy
from penstock.connectors.files.source.source import FileSource
from penstock.datastream.connectors.file_system import StreamFormat
from penstock.testing.conformance.sink import SimpleSinkContext

pytestmark = pytest.mark.connectors
QUICK = ["error", "busy", "lost", "cut", "late"]
CHUNK = 5
_LONG = "x" * 499_999
_TRIES = 200


@pytest.fixture
def direct(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of the store behind the faults."""
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    # What the SDKs do by themselves is the same, and quick.
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    return client


class Job:
    """A subtask that writes records and takes checkpoints; a failure restarts it, as a JobMaster would."""

    def __init__(self, sink: FileSink, records: list[str]) -> None:
        self._sink = sink
        self._records = records
        self._position = self._number = self.restarts = 0
        self._items: list[Any] = []
        self._committables: list[Any] = []

    def run(self) -> None:
        """To the end."""
        while not self._has_run():
            self.restarts += 1
            assert self.restarts < _TRIES

    def _has_run(self) -> bool:
        writer = None
        try:
            committer = self._sink.create_committer()
            committer.commit_again(self._committables)
            context = SimpleSinkContext(attempt=f"attempt-{self.restarts}", is_restored=bool(self._items))
            writer = self._sink.restore_writer(context, self._items)
            position = self._position
            while position < len(self._records):
                writer.write_chunk(self._records[position : position + CHUNK], None)
                position += CHUNK
                writer.flush(position >= len(self._records))
                committables, items = writer.prepare_commit(), writer.snapshot_state(self._number + 1)
                # The checkpoint is complete.
                self._number, self._position = self._number + 1, position
                self._items, self._committables = items, committables
                committer.commit(committables)
            return True
        except Exception:
            # Whatever a client raises restarts a job.
            return False
        finally:
            if writer is not None:
                try:
                    writer.close()
                except Exception as error:
                    assert isinstance(error, OSError) or type(error).__module__.startswith("botocore"), error


def goes_on(path: str) -> FileSink:
    return lines_below(path).build()


def rolls(path: str) -> FileSink:
    return lines_below(path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()


def compacts(path: str) -> FileSink:
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    builder = lines_below(path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    return builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()


def written(client: Any, bucket: str) -> list[str]:
    """All lines below out/, as a reader would see them."""
    name = bucket.removeprefix("s3://")
    found = client.list_objects_v2(Bucket=name, Prefix="out/").get("Contents", [])
    keys = [one["Key"] for one in found if not one["Key"].rpartition("/")[2].startswith((".", "_"))]
    bodies = [client.get_object(Bucket=name, Key=key)["Body"].read().decode() for key in keys]
    return [line for body in bodies for line in body.splitlines()]


def lines_in_spite_of(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch, make_sink: Callable[[str], FileSink], base: str, count: int
) -> list[str]:
    """Run the job with such a store. Return the records that it should have written."""
    records = [f"{number}{_LONG if number % 4 == 0 else ''}" for number in range(count)]
    with store.serving() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        job = Job(make_sink(base), records)
        job.run()
    assert store.tried, "the faults have not been tried"
    return records


@pytest.mark.parametrize("make_sink", [goes_on, rolls])
def test_each_record_is_written_once(
    bucket: str, direct: Any, monkeypatch: pytest.MonkeyPatch, make_sink: Callable[[str], FileSink]
) -> None:
    """A store that is busy would cost records, or a request whose answer is lost would write them twice."""
    store = FaultyStore(os.environ["AWS_ENDPOINT_URL"], Random(1), 0.5, QUICK)
    records = lines_in_spite_of(store, monkeypatch, make_sink, f"{bucket}/out", 60)

    assert sorted(written(direct, bucket)) == sorted(records)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("make_sink", [goes_on, rolls, compacts])
def test_again_and_again(
    bucket: str, direct: Any, monkeypatch: pytest.MonkeyPatch, make_sink: Callable[[str], FileSink], seed: int
) -> None:
    """As above, also while the store does not answer for a time, and while objects are compacted."""
    store = FaultyStore(os.environ["AWS_ENDPOINT_URL"], Random(seed), 0.3, [*QUICK, "silent"])
    records = lines_in_spite_of(store, monkeypatch, make_sink, f"{bucket}/out", 100)
    print(f"{make_sink.__name__}, seed {seed}: {dict(store.tried)}")

    assert sorted(written(direct, bucket)) == sorted(records)


def test_each_record_is_read_once(bucket: str, direct: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was cut would be taken for the end of an object; a failed one would be read from its beginning."""
    for number in range(5):
        lines = "".join(f"{number}-{line} {_LONG[:5_000]}\n" for line in range(100))
        direct.put_object(Bucket=bucket.removeprefix("s3://"), Key=f"in/{number}", Body=lines.encode())
    store = FaultyStore(os.environ["AWS_ENDPOINT_URL"], Random(1), 0.5, QUICK)
    values: list[str] = []
    state, failures = None, 0
    with store.serving() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{bucket}/in").build()
        while len(values) < 500:
            run = None
            try:
                run = SourceInTest(source, 1, state)
                while chunk := run.values(40, max_records=40):
                    values += chunk
                    state = run.snapshot()
            except (PenstockError, OSError):
                failures += 1
                assert failures < _TRIES
            finally:
                if run is not None:
                    run.close()

    expected = [f"{number}-{line}" for number in range(5) for line in range(100)]
    assert sorted(value.partition(" ")[0] for value in values) == sorted(expected)
    assert store.tried, "the faults have not been tried"
