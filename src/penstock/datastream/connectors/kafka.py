"""Kafka source and Kafka sink; they need the extra `kafka`, `pip install 'penstock-streams[kafka]'`.

Not here, unlike in PyFlink's module: FlinkKafkaConsumer and FlinkKafkaProducer, which Flink 2 has removed.
"""

from penstock.common.doors.door import publish
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.kafka.sink.serialization import (
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from penstock.connectors.kafka.sink.sink import KafkaSink, KafkaSinkBuilder
from penstock.connectors.kafka.source.deserialization import (
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    UnreadableRecord,
)
from penstock.connectors.kafka.source.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.connectors.kafka.source.source import KafkaSource, KafkaSourceBuilder
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition

__all__ = [
    "DeliveryGuarantee",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaProducerRecord",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "UnreadableRecord",
]

publish(__name__, __all__)
