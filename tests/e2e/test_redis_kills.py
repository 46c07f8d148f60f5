"""Random kills of workers, the driver and the Redis server: each entry is counted, and each count is there, once.

Each count has a name, which was looked up.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
from tests.e2e import counts_to_redis
from tests.e2e.counts_to_redis import COUNTS, KEYS, NUMBERS, name_of
from tests.e2e.test_postgres_kills import DRIVER, SERVER, WORKER, Counts
from tests.spark.test_redis import state_in_redis

from penstock.testing.redis_server import RedisServer

pytestmark = [pytest.mark.own_jvm, pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

STREAMS = 3
KILLS = 12


class CountsInRedis(Counts):
    """It reads what the test adds, without an end."""

    program = counts_to_redis.__file__
    added = 0

    def prepare(self) -> None:
        """Streams, which are found when the job starts, and the names of keys."""
        with self.client() as client:
            for key in range(KEYS):
                client.hset(name_of(key), "number", key * 7)
        self.add(STREAMS)

    def add(self, number: int) -> None:
        """Add so many entries."""
        with self.client() as client:
            pipeline = client.pipeline(transaction=False)
            for one in range(self.added, self.added + number):
                pipeline.xadd(f"{NUMBERS}:{one % STREAMS}", {"number": one})
            pipeline.execute()
        self.added += number

    def rows(self) -> list[tuple[Any, ...]]:
        """What is committed now."""
        with self.client() as client:
            return [tuple(map(int, row.split())) for row in client.lrange(COUNTS, 0, -1)]

    def client(self) -> Any:
        return redis.Redis.from_url(self.server.url, protocol=2, decode_responses=True)


class CountsWithStateInRedis(CountsInRedis):
    """Counts are kept there, too, and not on the heap."""

    def settings(self) -> dict[str, str]:
        return {**super().settings(), **state_in_redis(self.server)}


EACH = [
    (kind, seed) for kind, seeds in ((CountsInRedis, 3), (CountsWithStateInRedis, 2)) for seed in range(1, seeds + 1)
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "seed"), EACH)
def test_each_count_is_there_once(tmp_path: Path, kind: type[CountsInRedis], seed: int) -> None:
    """A kill between pre-commit and commit would lose commands of a checkpoint, or carry them out twice."""
    random = Random(seed)
    targets = random.choices((WORKER, DRIVER, SERVER), weights=(4, 3, 2), k=KILLS)
    records = 60_000
    with RedisServer() as server:
        counts = kind(server, tmp_path, records, 0)
        try:
            killed: Counter[str] = Counter()
            for target in targets:
                begun = len(counts.rows())
                counts.add(records // (KILLS + 1))
                more = begun + random.randrange(counts.added - begun)
                counts.until(lambda more=more: len(counts.rows()) >= more)  # type: ignore[misc]
                killed[target] += counts.kill(target, random)
            counts.add(records - counts.added)
            counts.until(lambda: len(counts.rows()) >= records)
            rows = counts.rows()
            with counts.client() as client:
                names = [key for key in client.scan_iter("penstock/*") if not key.startswith("penstock/state/")]
            left = [name for name in names if not name.endswith("/applied")]
        finally:
            counts.end()
        seen = Counter((key, count) for key, count, _ in rows)
        unnamed = [row for row in rows if row[2] != row[0] * 7]
        lost = sum((key, count) not in seen for key in range(KEYS) for count in range(1, records // KEYS + 1))
        doubled = sum(number - 1 for number in seen.values())
        print(f"{kind.__name__}, seed {seed}: killed {dict(killed)}, {len(rows)} rows")
        print(f"lost {lost}, doubled {doubled}, left {len(left)}")
        assert (lost, doubled, unnamed) == (0, 0, []), counts.story()
        assert sum(killed.values()) > 6
