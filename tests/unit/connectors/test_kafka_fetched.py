"""The fetched messages of a partition, and how far they are read."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from penstock.connectors.kafka.source.fetcher import Fetched
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition


class Message(NamedTuple):
    at: int

    def offset(self) -> int:
        return self.at


def fetched(offsets: list[int], end: int | None = None, stop: int | None = None) -> tuple[list[list[int]], list[int]]:
    """Taken two at a time: the messages, and the position after each."""
    of_partition = Fetched(KafkaTopicPartition("t", 0), [Message(offset) for offset in offsets], end)
    taken, positions, position = [], [], offsets[0] if offsets else 0
    while not of_partition.is_taken:
        messages, position = of_partition.take(2, position, stop)
        taken.append([message.offset() for message in messages])
        positions.append(position)
    return taken, positions


@pytest.mark.parametrize(
    ("offsets", "end", "stop", "taken", "positions"),
    [
        ([0, 1, 2], None, None, [[0, 1], [2]], [2, 3]),
        # Behind the last message are markers of transactions.
        ([0, 1, 2], 5, None, [[0, 1], [2]], [2, 5]),
        ([0, 1], 5, None, [[0, 1]], [5]),
        ([], 5, None, [[]], [5]),
        # The end was at 1; then more was written, and came with the same batch.
        ([0, 1, 2], 1, None, [[0, 1], [2]], [2, 3]),
        ([0, 1], 1, None, [[0, 1]], [2]),
        # Compacted, and up to a stopping offset whose message is gone.
        ([0, 4, 9], None, 5, [[0, 4], []], [5, 5]),
        ([0, 9], None, 5, [[0]], [5]),
        ([0], 5, 5, [[0]], [5]),
    ],
)
def test_the_position_behind_what_was_taken(
    offsets: list[int], end: int | None, stop: int | None, taken: list[list[int]], positions: list[int]
) -> None:
    """A restored job would read records again, or skip some."""
    assert fetched(offsets, end, stop) == (taken, positions)
