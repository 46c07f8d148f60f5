"""Topics of a Kafka source that come, go, and come again, against a broker."""

from __future__ import annotations

import pytest
from tests.connectors.driven import SourceInTest, until
from tests.connectors.kafka_topics import Topics, source_of, texts

from penstock.common.errors import SourceError
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer

pytestmark = pytest.mark.connectors


def test_partitions_and_topics_that_come_later(topics: Topics) -> None:
    """Records of a partition that was added would never be read."""
    first = topics.create()
    topics.write(first, texts(1))
    builder = source_of(topics).set_topic_pattern(f"{first}.*").set_property("partition.discovery.interval.ms", "10")
    run = SourceInTest(builder.set_starting_offsets(KafkaOffsetsInitializer.latest()).build())
    second = topics.create(name=f"{first}-second")
    topics.write(second, texts(2))

    def is_found() -> bool:
        assert run.enumerator.discover() == 10
        return len(run.snapshot()[1][0]) == 2

    until(is_found)

    assert run.values(1) == ["2"]
    run.close()


@pytest.mark.parametrize("discovery_interval_ms", ["10", "0", "300000"])
def test_a_topic_that_is_not_there_or_goes(topics: Topics, discovery_interval_ms: str) -> None:
    """A job that waits for a misspelled topic, or for one that was deleted, would look healthy for ever."""
    with pytest.raises(SourceError, match="the topic 'nowhere' is missing"):
        source_of(topics, "nowhere").build().validate()
    topic = topics.create()
    topics.write(topic, texts(1))
    builder = source_of(topics, topic).set_property("partition.discovery.interval.ms", discovery_interval_ms)
    run = SourceInTest(builder.build())
    assert run.values(1) == ["1"]
    topics.admin.delete_topics([topic])[topic].result(30)

    def discover_for_ever() -> bool:
        run.enumerator.discover()
        return False

    with pytest.raises(SourceError, match="It existed when the job started"):
        until(discover_for_ever)
    run.close()


@pytest.mark.parametrize("discovery_interval_ms", ["10", "0"])
@pytest.mark.parametrize("is_restored", [True, False])
def test_a_topic_that_is_created_again_is_another_one(
    topics: Topics, discovery_interval_ms: str, is_restored: bool
) -> None:
    """Its first records would be left out: the positions are those of the former one of the name."""
    topic = topics.create()
    topics.write(topic, texts(1, 2))
    builder = source_of(topics, topic).set_property("partition.discovery.interval.ms", discovery_interval_ms)
    source = builder.build()
    run = SourceInTest(source)
    assert run.values(2) == ["1", "2"]
    state = run.snapshot()
    if is_restored:
        run.close()
        run = SourceInTest(source, state=state)
        run.close()
    topics.admin.delete_topics([topic])[topic].result(30)
    until(lambda: topic not in topics.admin.list_topics(timeout=5).topics)
    topics.create(name=topic)
    topics.write(topic, texts(3, 4, 5))

    def discover_for_ever() -> bool:
        run.enumerator.discover()
        return False

    with pytest.raises(SourceError, match="was deleted and created again"):
        if is_restored:
            SourceInTest(source, state=state)
        until(discover_for_ever)
    run.close()
