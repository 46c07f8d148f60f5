"""The options of what tasks send to each other. Flink has none for the size of a record."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

RECORD_SIZE_MAX = (
    ConfigOptions.key("penstock.network.max-record-size")
    .memory_type()
    .default_value(64 << 20)
    .with_description(
        "A record that is larger when it is pickled fails the job where it leaves its task: Spark's JVM would take "
        "nine times its size, and keep that."
    )
)
