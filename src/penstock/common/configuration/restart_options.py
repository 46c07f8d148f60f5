"""The options of restarts: what is restarted after a failure, how often and when."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.configuration.failover_strategy import FailoverStrategy

_key = ConfigOptions.key

FAILOVER_STRATEGY = (
    _key("jobmanager.execution.failover-strategy")
    .enum_type(FailoverStrategy)
    .default_value(FailoverStrategy.REGION)
    .with_description(
        "region: only the pipelined region that failed is restarted, that is all tasks connected with the failed one. "
        "full: all tasks."
    )
)
RESTART_STRATEGY = (
    _key("restart-strategy.type")
    .string_type()
    .no_default_value()
    .with_fallback_keys("restart-strategy")
    .with_description(
        "none, fixed-delay, failure-rate or exponential-delay. "
        "Not set: exponential-delay if there are checkpoints, else none."
    )
)
FIXED_DELAY_ATTEMPTS = (
    _key("restart-strategy.fixed-delay.attempts")
    .int_type(least=0)
    .default_value(1)
    .with_description("How often a job is restarted before it fails.")
)
FIXED_DELAY = (
    _key("restart-strategy.fixed-delay.delay")
    .duration_type()
    .default_value(1000)
    .with_description("The time before each restart.")
)
FAILURE_RATE_MAX_FAILURES = (
    _key("restart-strategy.failure-rate.max-failures-per-interval")
    .int_type(least=0)
    .default_value(1)
    .with_description("How many failures in an interval do not fail the job.")
)
FAILURE_RATE_INTERVAL = (
    _key("restart-strategy.failure-rate.failure-rate-interval")
    .duration_type()
    .default_value(60_000)
    .with_description("The interval in which failures are counted.")
)
FAILURE_RATE_DELAY = (
    _key("restart-strategy.failure-rate.delay")
    .duration_type()
    .default_value(1000)
    .with_description("The time before each restart.")
)
EXPONENTIAL_DELAY_INITIAL_BACKOFF = (
    _key("restart-strategy.exponential-delay.initial-backoff")
    .duration_type(least_ms=1)
    .default_value(1000)
    .with_description("The time before the first restart.")
)
EXPONENTIAL_DELAY_MAX_BACKOFF = (
    _key("restart-strategy.exponential-delay.max-backoff")
    .duration_type(least_ms=1)
    .default_value(60_000)
    .with_description("The longest time before a restart.")
)
EXPONENTIAL_DELAY_MULTIPLIER = (
    _key("restart-strategy.exponential-delay.backoff-multiplier")
    .double_type(least=1)
    .default_value(1.5)
    .with_description("By what the time before a restart grows with each failure.")
)
EXPONENTIAL_DELAY_RESET_THRESHOLD = (
    _key("restart-strategy.exponential-delay.reset-backoff-threshold")
    .duration_type()
    .default_value(3_600_000)
    .with_description("After this time without a failure the first one is used again.")
)
EXPONENTIAL_DELAY_JITTER = (
    _key("restart-strategy.exponential-delay.jitter-factor")
    .double_type(least=0, most=1)
    .default_value(0.1)
    .with_description("The share of the time by which it is changed at random, either way.")
)
EXPONENTIAL_DELAY_ATTEMPTS = (
    _key("restart-strategy.exponential-delay.attempts-before-reset-backoff")
    .int_type(least=0)
    .default_value(2**31 - 1)
    .with_description("How often a job is restarted before it fails.")
)
