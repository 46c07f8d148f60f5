"""The options of flame graphs, by Flink's names. Source: Flink docs, "Flame Graphs"."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

_PREFIX = "rest.flamegraph."
_MINUTE_MS = 60_000


def _key(name: str) -> ConfigOptions.OptionBuilder:
    return ConfigOptions.key(_PREFIX + name)


ENABLED = (
    _key("enabled")
    .boolean_type()
    .default_value(False)
    .with_description("Whether REST has flame graphs of a job's vertices: where threads of its tasks spend their time.")
)
NUM_SAMPLES = (
    _key("num-samples")
    .int_type(least=1)
    .default_value(100)
    .with_description("How many samples of each subtask a flame graph is made of.")
)
DELAY_BETWEEN_SAMPLES = (
    _key("delay-between-samples")
    .duration_type(least_ms=1)
    .default_value(50)
    .with_description("The time between two samples of a subtask.")
)
STACK_DEPTH = (
    _key("stack-depth")
    .int_type(least=1)
    .default_value(100)
    .with_description("How many frames of a sample are kept at most, from the innermost on.")
)
REFRESH_INTERVAL = (
    _key("refresh-interval")
    .duration_type()
    .default_value(_MINUTE_MS)
    .with_description("How old samples may be. Whoever looks later has others taken.")
)
CLEANUP_INTERVAL = (
    _key("cleanup-interval")
    .duration_type(least_ms=1)
    .default_value(10 * _MINUTE_MS)
    .with_description("How long samples are kept at which nobody looks.")
)
