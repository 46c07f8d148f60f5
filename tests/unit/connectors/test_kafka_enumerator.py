"""Which partitions of Kafka's are found, and when they are looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.kafka.source.enumerator import KafkaEnumeratorState, KafkaSplitEnumerator, Reading
from penstock.connectors.kafka.source.offsets import KafkaOffsetsInitializer
from penstock.connectors.kafka.source.subscriber import Subscription
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition


class Brokers:
    """With topics, and their numbers of partitions, of a hundred messages each."""

    def __init__(self, **topics: int) -> None:
        self.topics = topics
        self.away = False

    def find(self, in_topics: Callable[[dict[str, int]], Any]) -> Any:
        if self.away:
            raise SourceError("the brokers do not answer")
        return in_topics(self.topics)

    def beginning(self, partitions: list[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end(self, partitions: list[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        return dict.fromkeys(partitions, 100)

    def ids_of(self, topics: set[str]) -> dict[str, str]:
        return {}


class Context:
    """The context of one subtask, whose calls end immediately."""

    parallelism = 1

    def __init__(self) -> None:
        self.assigned: list[str] = []
        self.are_all = False
        self.time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms

    def call_async(self, call: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> None:
        try:
            found = call()
        except Exception as error:
            done(None, error)
        else:
            done(found, None)

    def assign_split(self, split: Any, subtask: int) -> None:
        self.assigned.append(f"{split.split_id}@{split.offset}")

    def signal_no_more_splits(self, subtask: int) -> None:
        self.are_all = True


def enumerator(
    context: Any, brokers: Any, state: KafkaEnumeratorState | None = None, bounded: bool = False
) -> KafkaSplitEnumerator:
    """Without discovery."""
    topics = tuple(brokers.topics)
    stopping = KafkaOffsetsInitializer.latest() if bounded else None
    reading = Reading(Subscription(topics=topics), KafkaOffsetsInitializer.latest(), stopping, None)
    one = KafkaSplitEnumerator(context, reading, {}, state, lambda _: brokers)
    one.start()
    one.handle_split_request(0)
    return one


def test_partitions_that_were_added_are_read_after_a_restore_without_discovery_too() -> None:
    """The new partitions of a topic that grew while the job was down were never read, without an error. Source:
    Flink, KafkaSourceEnumerator.start: one discovery, whatever the interval."""
    for bounded in (False, True):
        context = Context()
        state = enumerator(context, Brokers(a=1), bounded=bounded).snapshot_state()
        assert context.assigned == ["a-0@100"] and context.are_all
        restored = Context()
        enumerator(restored, Brokers(a=3, b=1), state, bounded)
        assert sorted(restored.assigned) == ["a-1@0", "a-2@0", "b-0@0"] and restored.are_all


def test_brokers_that_are_away_at_a_restore_are_asked_again() -> None:
    """A job that comes back before its brokers do would fail, or read without what was added."""
    state = enumerator(Context(), Brokers(a=1)).snapshot_state()
    context, brokers = Context(), Brokers(a=2)
    brokers.away = True
    one = enumerator(context, brokers, state)
    assert not context.assigned and not context.are_all
    brokers.away = False
    context.time_ms = one.discover() or 0
    one.discover()
    assert context.assigned == ["a-1@0"] and context.are_all
