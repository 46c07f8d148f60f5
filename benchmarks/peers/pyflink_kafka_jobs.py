"""Kafka, a count by the field "key" of JSON values, Kafka, in PyFlink, with a checkpoint each second.

python pyflink_kafka_jobs.py BOOTSTRAP IN OUT GUARANTEE JAR BUNDLE_SIZE

BUNDLE_SIZE -1: the default.
"""

import json
import sys
from pathlib import Path

from pyflink.common import Configuration, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def main():
    bootstrap, taken, given, guarantee, jar, bundle_size = sys.argv[1:7]
    config = Configuration()
    config.set_string("python.executable", sys.executable)
    config.set_string("python.client.executable", sys.executable)
    config.set_string("pipeline.jars", Path(jar).resolve().as_uri())
    if int(bundle_size) >= 0:
        config.set_string("python.fn-execution.bundle.size", bundle_size)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    env.enable_checkpointing(1000)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(taken)
        .set_group_id(given)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(given)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(bootstrap)
        .set_property("transaction.timeout.ms", "600000")
        .set_delivery_guarantee(DeliveryGuarantee[guarantee])
        .set_transactional_id_prefix(given)
        .set_record_serializer(schema)
        .build()
    )
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        .map(lambda value: (json.loads(value)["key"], 1), output_type=PAIR)
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .map(json.dumps, output_type=Types.STRING())
        .sink_to(sink)
    )
    env.execute("kafka")


if __name__ == "__main__":
    main()
