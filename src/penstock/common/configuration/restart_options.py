"""The options of restarts: what is restarted after a failure, how often and when."""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import DurationType, EnumType, FloatType, IntegerType, TextType
from penstock.common.configuration.choices import FailoverStrategy

FAILOVER_STRATEGY = option(
    "jobmanager.execution.failover-strategy", EnumType(FailoverStrategy), FailoverStrategy.REGION
)
"""region: only the pipelined region that failed is restarted, that is, all tasks connected with the failed one. full:
all tasks."""

RESTART_STRATEGY = option("restart-strategy.type", TextType(), None, fallback_keys=("restart-strategy",))
"""none, fixed-delay, failure-rate or exponential-delay. Not set: exponential-delay if there are checkpoints, else
none."""

FIXED_DELAY_ATTEMPTS = option("restart-strategy.fixed-delay.attempts", IntegerType(least=0), 1)
"""How often a job is restarted before it fails."""

FIXED_DELAY = option("restart-strategy.fixed-delay.delay", DurationType(), 1000)
"""The time before each restart."""

FAILURE_RATE_MAX_FAILURES = option("restart-strategy.failure-rate.max-failures-per-interval", IntegerType(least=0), 1)
"""Largest number of failures in an interval that does not fail the job."""

FAILURE_RATE_INTERVAL = option("restart-strategy.failure-rate.failure-rate-interval", DurationType(), 60_000)
"""The interval in which failures are counted."""

FAILURE_RATE_DELAY = option("restart-strategy.failure-rate.delay", DurationType(), 1000)
"""The time before each restart."""

EXPONENTIAL_DELAY_INITIAL_BACKOFF = option(
    "restart-strategy.exponential-delay.initial-backoff", DurationType(least_ms=1), 1000
)
"""The time before the first restart."""

EXPONENTIAL_DELAY_MAX_BACKOFF = option(
    "restart-strategy.exponential-delay.max-backoff", DurationType(least_ms=1), 60_000
)
"""The longest time before a restart."""

EXPONENTIAL_DELAY_MULTIPLIER = option("restart-strategy.exponential-delay.backoff-multiplier", FloatType(least=1), 1.5)
"""Factor by which the time before a restart grows with each failure."""

EXPONENTIAL_DELAY_RESET_THRESHOLD = option(
    "restart-strategy.exponential-delay.reset-backoff-threshold", DurationType(), 3_600_000
)
"""After this time without a failure, the initial time is used again."""

EXPONENTIAL_DELAY_JITTER = option("restart-strategy.exponential-delay.jitter-factor", FloatType(least=0, most=1), 0.1)
"""Share of the time before a restart by which it varies at random, in both directions."""

EXPONENTIAL_DELAY_ATTEMPTS = option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff", IntegerType(least=0), 2**31 - 1
)
"""How often a job is restarted before it fails."""
