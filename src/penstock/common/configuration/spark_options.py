"""The options of how Spark is started. Flink has none: it starts no JVM for a job."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

START_TIMEOUT = (
    ConfigOptions.key("penstock.spark.start-timeout")
    .duration_type()
    .default_value(120_000)
    .with_description(
        "A JVM of Spark's, or a Spark context in it, that takes longer to start is ended: the restart of a job that "
        "needs it has failed. There is no limit while the JVM fetches packages, or waits for room on YARN or "
        "Kubernetes."
    )
)
