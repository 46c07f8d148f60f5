"""A job in an object store whose requests fail, under random kills of workers and the driver: each count is once.

Its source watches for objects, its sink writes by multipart uploads, its checkpoints are beside them.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.connectors.faulty_store import FaultyStore
from tests.e2e import lines_in_s3
from tests.e2e.lines_in_s3 import KEYS
from tests.e2e.test_postgres_kills import DRIVER, WORKER, Counts

from penstock.testing.s3_server import S3Server

pytestmark = [pytest.mark.own_jvm, pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
boto3 = pytest.importorskip("boto3", reason="pip install 'penstock-streams[s3]'")

KILLS = 6
LINES = 12_000
LINES_IN_OBJECT = 100
FAULTS = ["error", "busy", "lost", "cut", "late", "silent"]


class CountsInS3(Counts):
    """It reads the objects that the test adds, without an end."""

    program = lines_in_s3.__file__
    added = 0

    def __init__(self, server: S3Server, address: str, folder: Path) -> None:
        """`address`: that of the store with faults."""
        self.server = server
        self.expected = LINES
        self.folder = folder
        self.read: dict[str, list[tuple[Any, ...]]] = {}
        self.bucket = server.create_bucket("lines")
        self.environment = {**os.environ, **server.environment, "AWS_ENDPOINT_URL": address, "AWS_MAX_ATTEMPTS": "3"}
        self.client = boto3.client(
            "s3",
            endpoint_url=server.url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        # No worker kills itself.
        self.arguments = [self.bucket, str(folder / "killed"), "-1", "--watch"]
        self.start()

    def checkpoints(self) -> str:
        return f"{self.bucket}/checkpoints"

    def has_checkpoint(self) -> bool:
        return any(name.endswith("/_metadata") for name in self.names("checkpoints/"))

    def add(self, number: int) -> None:
        """Add so many lines, in objects."""
        for first in range(self.added, self.added + number, LINES_IN_OBJECT):
            body = "".join(f"{line}\n" for line in range(first, first + LINES_IN_OBJECT))
            self.client.put_object(Bucket="lines", Key=f"in/{first:06}", Body=body.encode())
        self.added += number

    def names(self, prefix: str) -> list[str]:
        """Of the objects there."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="lines", Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def rows(self) -> list[tuple[Any, ...]]:
        """What is committed now."""
        for name in self.names("out/"):
            if name not in self.read:
                body = self.client.get_object(Bucket="lines", Key=name)["Body"].read()
                self.read[name] = [tuple(map(int, line.split())) for line in gzip.decompress(body).splitlines()]
        return [row for rows in self.read.values() for row in rows]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "probability"), [(1, 0.0), (2, 0.02), (3, 0.02)])
def test_each_count_is_there_once(tmp_path: Path, seed: int, probability: float) -> None:
    """An upload that is named by two checkpoints, or by none that is known, would double counts or lose them."""
    random = Random(seed)
    kinds = [WORKER, DRIVER, *random.choices((WORKER, DRIVER), k=KILLS - 2)]
    random.shuffle(kinds)
    with S3Server() as server:
        store = FaultyStore(server.url, Random(seed), probability, FAULTS)
        with store.serving() as address:
            counts = CountsInS3(server, address, tmp_path)
            try:
                killed: Counter[str] = Counter()
                for kind in kinds:
                    begun = len(counts.rows())
                    counts.add(LINES // (KILLS + 2))
                    more = begun + random.randrange(counts.added - begun)
                    counts.until(lambda more=more: len(counts.rows()) >= more)  # type: ignore[misc]
                    killed[kind] += counts.kill(kind, random)
                counts.add(LINES - counts.added)
                counts.until(lambda: len(counts.rows()) >= LINES)
                rows = counts.rows()
            finally:
                counts.end()
    seen = Counter(rows)
    lost = sum((key, count) not in seen for key in range(KEYS) for count in range(1, LINES // KEYS + 1))
    doubled = sum(number - 1 for number in seen.values())
    print(f"seed {seed}: killed {dict(killed)}, faults {dict(store.tried)}, {len(rows)} rows")
    print(f"lost {lost}, doubled {doubled}")
    assert (lost, doubled) == (0, 0), counts.story()
    assert killed[WORKER] and killed[DRIVER] and bool(store.tried) is bool(probability)
