"""Restart strategies: by Flink's documentation."""

from __future__ import annotations

from random import random

import pytest

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.engine.jobmaster.restarts import ExponentialDelay, FailureRate, FixedDelay, NoRestart, restart_strategy


def test_fixed_delay() -> None:
    """A job would be tried for ever, or not often enough."""
    strategy = FixedDelay(2, 500)
    assert [strategy.delay_ms(now) for now in (0, 1, 2)] == [500, 500, None]


def test_failure_rate() -> None:
    """Two failures within a minute are tolerated, a third is not; failures spread out are tolerated for ever."""
    strategy = FailureRate(2, 60_000, 100)
    assert [strategy.delay_ms(now) for now in (0, 10_000, 70_000, 80_000)] == [100] * 4
    assert strategy.delay_ms(90_000) is None


def test_exponential_delay() -> None:
    """A cluster that is down would be overloaded by restarting jobs."""
    strategy = ExponentialDelay(initial_ms=1_000, max_ms=5_000, multiplier=2.0, reset_ms=60_000, attempts=5)
    assert [strategy.delay_ms(now) for now in range(5)] == [1_000, 2_000, 4_000, 5_000, 5_000]
    assert strategy.delay_ms(5) is None
    assert strategy.delay_ms(100_000) == 1_000, "after a time without failures it is reset"


def test_waiting_to_start_again_is_no_quiet_while() -> None:
    """A job whose delay is longer than the threshold would be tried for ever, as if nothing had happened."""
    strategy = ExponentialDelay(initial_ms=1_000, max_ms=300_000, multiplier=300.0, reset_ms=60_000, attempts=2)
    assert [strategy.delay_ms(now) for now in (0, 1_000, 301_000)] == [1_000, 300_000, None]


def test_jobs_that_failed_together_do_not_start_together() -> None:
    """A cluster that comes back would be overloaded by jobs that restart at the same time."""
    delays = []
    for chance in (0.0, 0.5, 0.75):
        strategy = ExponentialDelay(
            initial_ms=1_000,
            max_ms=60_000,
            multiplier=10.0,
            reset_ms=60_000,
            attempts=5,
            jitter=0.2,
            chance=lambda chance=chance: chance,
        )
        delays.append([strategy.delay_ms(0), strategy.delay_ms(0)])
    assert delays == [[1_000, 8_000], [1_000, 10_000], [1_100, 11_000]]


def test_what_a_configuration_names() -> None:
    """A job without checkpoints would start from nothing again and again; one with them would not be restarted."""
    assert isinstance(restart_strategy(Configuration(), random), NoRestart)
    with_checkpoints = Configuration.from_dict({"execution.checkpointing.interval": "1 s"})
    assert isinstance(restart_strategy(with_checkpoints, random), ExponentialDelay)
    for name, kind in {
        "none": NoRestart,
        "fixed-delay": FixedDelay,
        "failure-rate": FailureRate,
        "exponential-delay": ExponentialDelay,
    }.items():
        assert isinstance(restart_strategy(Configuration.from_dict({"restart-strategy.type": name}), random), kind)
    with pytest.raises(ConfigurationError, match=r"must be one of .* got 'sometimes'"):
        restart_strategy(Configuration.from_dict({"restart-strategy.type": "sometimes"}), random)
