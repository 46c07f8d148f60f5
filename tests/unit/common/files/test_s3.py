"""Whether a store is there is known at once, before a job starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.common import Configuration, Encoder
from penstock.common.errors import CheckpointError, ProgramError, SourceError
from penstock.common.files.s3 import check_answers
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.service.client.start_point import StartPoint, check_place


@pytest.fixture
def refusing() -> Iterator[str]:
    """An address at which nobody listens, as long as the test runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize(
    "by", ["s3://b/k?endpoint_override={}&scheme=http", "s3://b/k?endpoint_override=http://{}", "AWS"]
)
def test_a_store_that_is_not_there_is_told_with_its_address(refusing: str, by: str) -> None:
    """The user would read of a curl code after many seconds, and not where it was tried."""
    url, environ = by.format(refusing), {"AWS_ENDPOINT_URL_S3": "", "AWS_ENDPOINT_URL": f"http://{refusing}"}
    with pytest.raises(OSError, match=rf"no store answers at {refusing}: .*refused.*AWS_ENDPOINT_URL"):
        check_answers("s3://b/k" if by == "AWS" else url, environ if by == "AWS" else {})


def test_what_is_no_store_of_s3_or_behind_a_proxy_is_not_looked_at(tmp_path: Path) -> None:
    """A job that writes to a local directory, or whose network has a proxy, would be refused."""
    check_answers(str(tmp_path), {})
    check_answers("gs://bucket/key", {})
    check_answers("s3://bucket/key?region=none", {"HTTPS_PROXY": "http://proxy.example:3128"})


def test_one_that_answers_is_not_in_the_way() -> None:
    """Stores that are there would be refused."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        check_answers(f"s3://b/k?endpoint_override=127.0.0.1:{listening.getsockname()[1]}&scheme=http", {})


def test_a_job_is_refused_before_it_starts(refusing: str) -> None:
    """Spark would start, and the job fail by it later, as often as it restarts."""
    url = f"s3://a:b@bucket/key?endpoint_override={refusing}&scheme=http&region=us-east-1"
    settings = {"execution.checkpointing.interval": "1s", "execution.checkpointing.dir": url}
    with pytest.raises(CheckpointError, match=f"no store answers at {refusing}"):
        check_place(StartPoint(), Configuration.from_dict(settings), False)
    with pytest.raises(ProgramError, match=f"FileSink: cannot reach .*: no store answers at {refusing}"):
        FileSink.for_row_format(url, Encoder.simple_string_encoder()).build().validate()
    with pytest.raises(SourceError, match=f"no store answers at {refusing}"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), url).build().validate()
