"""Kafka, a count by the field "key" of JSON values, Kafka, in penstock, with a checkpoint each second.

python penstock_kafka_jobs.py BOOTSTRAP IN OUT GUARANTEE
"""

import sys

from penstock.common import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema


def main():
    bootstrap, taken, given, guarantee = sys.argv[1:5]
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(1000)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(taken)
        .set_group_id(given)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonDeserializationSchema())
        .build()
    )
    schema = KafkaRecordSerializationSchema.builder().set_topic(given)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(bootstrap)
        .set_delivery_guarantee(DeliveryGuarantee[guarantee])
        .set_record_serializer(schema.set_value_serialization_schema(JsonSerializationSchema()).build())
        .build()
    )
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .map(lambda value: (value["key"], 1))
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .sink_to(sink)
    )
    env.execute("kafka")


if __name__ == "__main__":
    main()
