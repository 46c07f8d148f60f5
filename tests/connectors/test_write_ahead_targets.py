"""WriteAheadSink on targets without prepared transactions: SQLite and Redis, with deaths between sending and recording.

Each has both ways to exactly once: an upsert with marks kept elsewhere, and totals that are changed in one transaction
with the mark.
"""

from __future__ import annotations

import pickle
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.connectors.redis_keys import Keys

from penstock.api.sink import SinkWriter
from penstock.datastream.connectors.base import CheckpointCommitter, WriteAheadSink
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.redis_server import RedisServer

pytestmark = pytest.mark.connectors


class DeathError(Exception):
    """The process is gone, and its connection with it."""


class Target(ABC):
    """A store that totals are written to. Pickled with the sink; a copy connects by itself."""

    dies = False
    """Whether the process dies before it can record that a batch was sent."""

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def send(self, totals: Sequence[tuple[str, int]], *, add: bool) -> None:
        """Set totals, or add to them."""

    @abstractmethod
    def mark(self, mark: str) -> None: ...

    @abstractmethod
    def is_marked(self, mark: str) -> bool: ...

    @abstractmethod
    def end_transaction(self) -> None: ...

    @abstractmethod
    def disconnect(self) -> None: ...

    @abstractmethod
    def totals(self) -> dict[str, int]: ...


class InSqlite(Target):
    def __init__(self, path: str) -> None:
        self.path = path

    def open(self) -> None:
        self.connection = sqlite3.connect(self.path)
        self.connection.execute("CREATE TABLE IF NOT EXISTS totals (name TEXT PRIMARY KEY, total INT)")
        self.connection.execute("CREATE TABLE IF NOT EXISTS marks (mark TEXT PRIMARY KEY)")
        self.connection.commit()

    def send(self, totals: Sequence[tuple[str, int]], *, add: bool) -> None:
        total = "totals.total + excluded.total" if add else "excluded.total"
        sql = f"INSERT INTO totals VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET total = {total}"
        self.connection.executemany(sql, totals)

    def mark(self, mark: str) -> None:
        self.connection.execute("INSERT INTO marks VALUES (?)", (mark,))

    def is_marked(self, mark: str) -> bool:
        return bool(self.connection.execute("SELECT 1 FROM marks WHERE mark = ?", (mark,)).fetchall())

    def end_transaction(self) -> None:
        self.connection.commit()

    def disconnect(self) -> None:
        self.connection.close()

    def totals(self) -> dict[str, int]:
        with sqlite3.connect(self.path) as connection:
            return dict(connection.execute("SELECT name, total FROM totals ORDER BY name").fetchall())


class InRedis(Target):
    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        self.prefix = prefix

    def open(self) -> None:
        self.client = redis.Redis.from_url(self.url, protocol=2, decode_responses=True)
        self.transaction = self.client.pipeline(transaction=True)

    def send(self, totals: Sequence[tuple[str, int]], *, add: bool) -> None:
        for name, total in totals:
            if add:
                self.transaction.hincrby(f"{self.prefix}:totals", name, total)
            else:
                self.transaction.hset(f"{self.prefix}:totals", name, str(total))

    def mark(self, mark: str) -> None:
        self.transaction.sadd(f"{self.prefix}:marks", mark)

    def is_marked(self, mark: str) -> bool:
        return bool(self.client.sismember(f"{self.prefix}:marks", mark))

    def end_transaction(self) -> None:
        self.transaction.execute()

    def disconnect(self) -> None:
        self.client.close()

    def totals(self) -> dict[str, int]:
        with redis.Redis.from_url(self.url, protocol=2, decode_responses=True) as client:
            return {name: int(total) for name, total in sorted(client.hgetall(f"{self.prefix}:totals").items())}


class Marks(CheckpointCommitter):
    """In the target: with the batch in one transaction, or in one of their own."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def commit_checkpoint(self, log_id: str, checkpoint_id: int) -> None:
        if self.target.dies:
            self.target.disconnect()
            raise DeathError
        self.target.mark(f"{log_id} {checkpoint_id}")
        self.target.end_transaction()

    def is_checkpoint_committed(self, log_id: str, checkpoint_id: int) -> bool:
        return self.target.is_marked(f"{log_id} {checkpoint_id}")


class Totals(WriteAheadSink[tuple[str, int]]):
    """`add`: records are added to totals, in one transaction with the mark. Else they replace them, in one before."""

    def __init__(self, target: Target, *, add: bool) -> None:
        super().__init__(Marks(target))
        self.target = target
        self.add = add

    def open(self, context: Any) -> None:
        self.target.open()

    def send_values(self, values: Sequence[tuple[str, int]], checkpoint_id: int, timestamp: int) -> bool:
        self.target.send(values, add=self.add)
        if not self.add:
            self.target.end_transaction()
        return True


@pytest.fixture(params=["SQLite", "Redis"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    if request.param == "SQLite":
        yield InSqlite(str(tmp_path / "totals.db"))
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    keys = Keys(server.url)
    yield InRedis(server.url, keys.prefix)
    keys.client.close()


def started(target: Target, state: list[Any] | None = None, *, add: bool, dies: bool) -> SinkWriter[Any]:
    """A writer in a process of its own: it has a copy of the sink."""
    sink = pickle.loads(pickle.dumps(Totals(target, add=add)))
    sink.target.dies = dies
    writer: SinkWriter[Any] = sink.restore_writer(SimpleSinkContext(is_restored=state is not None), state or [])
    return writer


def snapshot(writer: SinkWriter[Any], checkpoint_id: int) -> list[Any]:
    writer.flush(False)
    state: list[Any] = pickle.loads(pickle.dumps(writer.snapshot_state(checkpoint_id)))
    return state


@pytest.mark.parametrize("add", [False, True], ids=["upsert", "one transaction"])
def test_a_process_that_dies_between_sending_a_batch_and_recording_it(target: Target, add: bool) -> None:
    """A batch would be counted twice, or be lost; each restart would send the last one again."""
    writer = started(target, add=add, dies=False)
    writer.write_chunk([("JFK", 1), ("LGA", 2)], None)
    state = snapshot(writer, 1)
    writer.notify_checkpoint_complete(1)
    assert target.totals() == {"JFK": 1, "LGA": 2}

    # The commit was recorded, the driver's note of it was not: the checkpoint is restored, and committed again.
    dying = started(target, state, add=add, dies=True)
    dying.write_chunk([("JFK", 10), ("ORD", 5)], None)
    state = snapshot(dying, 2)
    with pytest.raises(DeathError):
        dying.notify_checkpoint_complete(2)
    sent = {"JFK": 10, "LGA": 2, "ORD": 5}
    assert target.totals() == ({"JFK": 1, "LGA": 2} if add else sent)

    # The second one dies at the same point, in restoring.
    with pytest.raises(DeathError):
        started(target, state, add=add, dies=True)
    for _ in range(3):
        restored = started(target, state, add=add, dies=False)
        restored.notify_checkpoint_complete(3)
    assert target.totals() == ({"JFK": 11, "LGA": 2, "ORD": 5} if add else sent)
