"""The S3 server that tests and people start."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from penstock.connectors.files.storage import resolve
from penstock.testing.s3_server import S3Server, s3

pytestmark = pytest.mark.connectors


def test_what_a_user_is_told_leads_to_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make servers` would print settings with which no job reaches its store."""
    with s3() as told:
        words = shlex.split(told, comments=True)
        assert words[0] == "export"
        for word in words[1:]:
            name, _, value = word.partition("=")
            monkeypatch.setenv(name, value)
        system, path = resolve("s3://penstock/job/file")
        with system.open_output_stream(path) as stream:
            stream.write(b"data")
        with system.open_input_stream(path) as stream:
            assert stream.read() == b"data"


def test_it_ends_with_its_block() -> None:
    """Each run of the tests would leave a server behind."""
    with S3Server() as server:
        pid, directory = server.pid, server.directory
        assert Path(f"/proc/{pid}").exists() or not Path("/proc").exists()
    assert not Path(f"/proc/{pid}").exists() and not directory.exists()
