"""Kills of workers, drivers and servers of jobs that write to tables: each count is there once.

At random, and at the points of a commit by the processes themselves. Tables of lakes, PostgreSQL by the sink's
write-ahead log, and SQLAlchemy's sink by a key.
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.connectors.postgres_tables import Tables
from tests.e2e import counts_to_tables
from tests.e2e.counts_to_tables import BEFORE_COMMIT, BEHIND_COMMIT, BEHIND_SNAPSHOT, KEYS, TABLE, catalog
from tests.e2e.test_postgres_kills import DRIVER, SERVER, WORKER, Counts

from penstock.testing.postgres_server import PostgresServer
from penstock.testing.s3_server import S3Server

pytestmark = [pytest.mark.own_jvm, pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
POINTS = [BEHIND_SNAPSHOT, BEFORE_COMMIT, BEHIND_COMMIT]
LAKES = ["delta", "iceberg"]
IN_S3 = {f"{target}, in S3": target for target in LAKES}


class CountsInServer(Counts):
    """By SQLAlchemy rows have a key; by the write-ahead log a row that is written twice is there twice."""

    program = counts_to_tables.__file__

    def prepare(self) -> None:
        key = ", PRIMARY KEY (key, count)" if "sql" in self.arguments else ""
        Tables(self.server.url).execute(f"CREATE TABLE {TABLE} (key bigint, count bigint{key})")


class CountsInLake(Counts):
    """There is no server, but the folder of a test."""

    program = counts_to_tables.__file__

    def prepare(self) -> None:
        """The job creates the table."""
        if self.server.bucket:
            # A look reads all files, and a commit all entries of the log: in an object store of one process they would
            # take all of its time.
            self.looks_each_s = 2.0

    def settings(self) -> dict[str, str]:
        return {**super().settings(), **({"execution.checkpointing.interval": "1s"} if self.server.bucket else {})}

    def rows(self) -> list[tuple[Any, ...]]:
        from deltalake import DeltaTable
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        place = self.server.url
        if "delta" in self.arguments:
            uri = f"{self.server.bucket or place}/{TABLE}"
            found = DeltaTable(uri).to_pyarrow_table() if DeltaTable.is_deltatable(uri) else None
        else:
            found = None
            with contextlib.suppress(NoSuchTableError):
                lake = load_catalog("lake", **catalog(place, self.server.bucket))
                found = lake.load_table(f"air.{TABLE}").scan().to_arrow()
        return [] if found is None else list(zip(found["key"].to_pylist(), found["count"].to_pylist(), strict=True))


@contextlib.contextmanager
def counts_of(target: str, folder: Path, records: int, rate: float, *options: str) -> Iterator[Counts]:
    """A job that counts into such a table, until the block ends."""
    lake = IN_S3.get(target, target)
    options = ("--target", lake, *options)
    with contextlib.ExitStack() as stack:
        if lake in LAKES:
            bucket = ""
            if target in IN_S3:
                store = stack.enter_context(S3Server())
                bucket = store.create_bucket("lake")
                variables = stack.enter_context(pytest.MonkeyPatch.context())
                for name, value in store.environment.items():
                    variables.setenv(name, value)
                options = (*options, "--bucket", bucket)
            place = SimpleNamespace(url=str(folder), bucket=bucket)
            counts: Counts = CountsInLake(place, folder, records, rate, *options)
        else:
            server = stack.enter_context(PostgresServer(prepared_transactions=0))
            counts = CountsInServer(server, folder, records, rate, *options)
        stack.callback(counts.end)
        yield counts


def check(counts: Counts, what: str) -> None:
    """Each count is there once, and the job has ended well."""
    status = counts.driver.wait(240)
    rows = counts.rows()
    seen = Counter(rows)
    lost = sum((key, count) not in seen for key in range(KEYS) for count in range(1, counts.expected // KEYS + 1))
    doubled = sum(number - 1 for number in seen.values())
    print(f"{what}: {len(rows)} rows, lost {lost}, doubled {doubled}")
    ended = -signal.SIGKILL if counts.is_over else 0
    assert (status, lost, doubled, len(seen)) == (ended, 0, 0, counts.expected), counts.story()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", [*LAKES, *IN_S3, "sql"])
def test_each_count_is_there_once(tmp_path: Path, target: str) -> None:
    """A kill between pre-commit and commit would lose rows of a checkpoint, or add them twice."""
    random = Random(1)
    kinds = random.choices((WORKER, DRIVER, SERVER) if target == "sql" else (WORKER, DRIVER), k=10)
    # Its rows are read again and again, which takes its time in an object store.
    records = 24_000 if target in IN_S3 else 60_000
    with counts_of(target, tmp_path, records, records / 40) as counts:
        killed: Counter[str] = Counter()
        for kind in kinds:
            more = len(counts.rows()) + random.randrange(records // 10)
            if counts.until(lambda more=more: len(counts.rows()) >= more) is None:  # type: ignore[misc]
                break
            killed[kind] += counts.kill(kind, random)
        check(counts, f"{target}: killed {dict(killed)}")
    assert sum(killed.values()) > 5


@pytest.mark.parametrize(("target", "point"), [*product([*LAKES, "log"], POINTS), ("sql", BEHIND_SNAPSHOT)])
def test_killed_at_a_commit(tmp_path: Path, target: str, point: str) -> None:
    """What is named by a checkpoint would be lost with its process, or be added by its successor again."""
    mark = tmp_path / "died"
    with counts_of(target, tmp_path, 12_000, 3_000, "--fatal", point, "--mark", str(mark)) as counts:
        counts.until(mark.exists)
        if target in LAKES and point != BEHIND_SNAPSHOT:
            # It was the driver, and with it all that belongs to it.
            assert counts.driver.wait(60) != 0
            counts.end()
            counts.start()
        check(counts, f"{target}, {point}")
    assert mark.exists()
