"""Topics that a sink writes to and that are not there: refused, unless the brokers create them."""

from __future__ import annotations

import pytest
from tests.connectors.kafka_topics import Topics, sink_of

from penstock.connectors.kafka.sink.producer import ProducerError
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.connectors


def test_a_sink_whose_topic_is_not_there(topics: Topics) -> None:
    """After Spark's start the job would be silent for half a minute, and then fail without saying at which brokers."""
    for guarantee in DeliveryGuarantee:
        sink = sink_of(topics, "nowhere").set_delivery_guarantee(guarantee).build()
        with pytest.raises(
            ProducerError, match=f"no topic 'nowhere' at {topics.bootstrap}, and these brokers create none"
        ):
            sink.validate()
    sink_of(topics, topics.create()).build().validate()


def test_a_topic_that_the_brokers_create() -> None:
    """Programs that rely on it, as many do while they are tried out, would be refused."""
    with KafkaBroker(creates_topics=True) as broker:
        topics = Topics(broker.bootstrap)
        sink = sink_of(topics, "new").set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build()
        sink.validate()
        assert "new" not in topics.admin.list_topics().topics, "a job that is only planned creates nothing"
        writer = sink.create_writer(SimpleSinkContext())
        writer.write(b"1", None)
        writer.flush(True)
        assert topics.values("new") == [b"1"]
