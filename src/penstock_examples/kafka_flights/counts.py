"""The output of the job: numbers by airport, as a reader of the topic and a reader of the table see them."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict

from penstock.common.errors import PenstockError
from penstock_examples.kafka_flights.job import COUNTS, PARTITIONS

Counts = dict[str, list[int]]


class MissingOrDoubledError(PenstockError):
    """The topic, or the table, does not contain each count once."""


class TopicReader:
    """Reads the topic from its beginning, with `read_committed`."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self.counts: Counts = defaultdict(list)
        self.seen = 0
        """Number of counts read so far."""
        self._at_end = set[int]()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"check-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
                # The client waits for killed brokers to return.
                "error_cb": lambda error: None,
            }
        )
        self._consumer.assign([TopicPartition(COUNTS, number, 0) for number in range(PARTITIONS)])

    def read(self, seconds: float) -> bool:
        """Read what arrives within these seconds. Return whether anything has."""
        before = self.seen
        for message in self._consumer.consume(10_000, seconds):
            partition = message.partition()
            if message.error() is None:
                self._at_end.discard(partition)
                airport, count = json.loads(message.value())
                self.counts[airport].append(count)
                self.seen += 1
            elif message.error().code() == message.error()._PARTITION_EOF:
                self._at_end.add(partition)
        return self.seen > before

    def read_all(self) -> Counts:
        """Read everything that is in the topic now; call it on a new reader."""
        while len(self._at_end) < PARTITIONS:
            self.read(1.0)
        self.close()
        return self.counts

    def close(self) -> None:
        """Close the connection to the broker."""
        self._consumer.close()


def create_table(url: str) -> None:
    """Create the empty table."""
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE {COUNTS} (airport text, number int)")


def read_table(url: str) -> Counts:
    """Return the numbers in the table, by airport."""
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute(f"SELECT airport, array_agg(number) FROM {COUNTS} GROUP BY airport").fetchall()
    return dict(rows)


def lost_and_doubled(where: str, counts: Counts, total: int) -> tuple[int, int]:
    """Return how many of `total` numbers are missing, and how many are duplicated.

    Raises MissingOrDoubledError if any are, or if those of an airport are not 1, 2, 3 and so on.
    """
    distinct = {airport: set(numbers) for airport, numbers in counts.items()}
    doubled = sum(len(numbers) - len(distinct[airport]) for airport, numbers in counts.items())
    lost = total - sum(map(len, distinct.values()))
    wrong = [airport for airport, numbers in distinct.items() if max(numbers) != len(numbers)]
    if lost or doubled or wrong:
        raise MissingOrDoubledError(f"{where}: lost {lost}, doubled {doubled}; airports with gaps: {wrong}")
    return lost, doubled
