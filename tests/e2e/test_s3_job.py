"""A job whose input, output and checkpoints are in an object store, with a worker that is killed in the midst of it."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.e2e import lines_in_s3
from tests.e2e.lines_in_s3 import KEYS

from penstock.testing.s3_server import S3Server

pytestmark = [pytest.mark.own_jvm, pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
boto3 = pytest.importorskip("boto3", reason="pip install 'penstock-streams[s3]'")
RECORDS = 4_000


def test_each_count_is_there_once(tmp_path: Path) -> None:
    """Each part works by itself; a restart that takes source, state and uploads from the store might not."""
    with S3Server() as server:
        bucket = server.create_bucket("lines")
        environment = {**os.environ, **server.environment}
        client = boto3.client(
            "s3",
            endpoint_url=server.url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        for number in range(4):
            body = "".join(f"{line}\n" for line in range(number, RECORDS, 4))
            client.put_object(Bucket="lines", Key=f"in/{number}", Body=body.encode())
        settings = {
            "execution.checkpointing.interval": "200 ms",
            "execution.checkpointing.dir": f"{bucket}/checkpoints",
        }
        options = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
        program = [lines_in_s3.__file__, bucket, str(tmp_path / "killed"), str(RECORDS // 2)]
        done = subprocess.run(
            [sys.executable, "-m", "penstock.service.cli.main", "run", *options, *program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4_000:]
        assert (tmp_path / "killed").exists(), "the worker was not killed"
        found = client.list_objects_v2(Bucket="lines", Prefix="out/").get("Contents", [])
        bodies = [client.get_object(Bucket="lines", Key=one["Key"])["Body"].read() for one in found]
        counts = Counter(line for body in bodies for line in gzip.decompress(body).decode().splitlines())
        uploads = client.list_multipart_uploads(Bucket="lines").get("Uploads", [])

    expected = {f"{key} {count}": 1 for key in range(KEYS) for count in range(1, RECORDS // KEYS + 1)}
    assert counts == expected, f"lost {len(expected.keys() - counts.keys())}, doubled {max(counts.values())}"
    # What the killed worker had begun and no checkpoint names may be left: life-cycle rules of a bucket are for these.
    assert len(uploads) <= 2
