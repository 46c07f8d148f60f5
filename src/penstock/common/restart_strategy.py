"""Restart strategies, as set by programs.

Source: Flink docs, "Task Failure Recovery", Restart Strategies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta

from penstock.common.configuration import Configuration, restart_options
from penstock.common.time import TimeLength, to_milliseconds


class RestartStrategyConfiguration(ABC):
    """Defines whether and when a failed job restarts."""

    @abstractmethod
    def get_description(self) -> str:
        """Return a one-sentence description."""

    @abstractmethod
    def apply_to(self, configuration: Configuration) -> None:
        """Set this strategy in a configuration, from which the JobMaster reads it."""


class RestartStrategies:
    """Creates restart strategies. Durations: timedelta, Duration, Time or int milliseconds."""

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Ends the job at its first failure."""

        def get_description(self) -> str:
            """Return a one-sentence description."""
            return "Restart deactivated."

        def apply_to(self, configuration: Configuration) -> None:
            """Set `restart-strategy.type: none`."""
            configuration.set(restart_options.RESTART_STRATEGY, "none")

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Uses the strategy of the configuration, or its default."""

        def get_description(self) -> str:
            """Return a one-sentence description."""
            return "Restart as configured."

        def apply_to(self, configuration: Configuration) -> None:
            """Leave the configuration unchanged."""

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts a number of times, after a fixed delay. Raises ValueError if an argument is negative."""

        restart_attempts: int
        delay_ms: int

        def __post_init__(self) -> None:
            _refuse_negative("restart attempts", self.restart_attempts)
            _refuse_negative("delay in ms", self.delay_ms)

        def get_restart_attempts(self) -> int:
            """Return the maximum number of restarts."""
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time between a failure and the restart."""
            return timedelta(milliseconds=self.delay_ms)

        def get_description(self) -> str:
            """Return a one-sentence description."""
            return f"Restart {self.restart_attempts} times, {self.delay_ms} ms after each failure."

        def apply_to(self, configuration: Configuration) -> None:
            """Set `restart-strategy.type: fixed-delay` and its options."""
            configuration.set(restart_options.RESTART_STRATEGY, "fixed-delay")
            configuration.set(restart_options.FIXED_DELAY_ATTEMPTS, self.restart_attempts)
            configuration.set(restart_options.FIXED_DELAY, self.delay_ms)

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts unless failures exceed a rate. Raises ValueError if an argument is negative."""

        max_failures: int
        interval_ms: int
        delay_ms: int

        def __post_init__(self) -> None:
            _refuse_negative("failures allowed in an interval", self.max_failures)
            _refuse_negative("interval in ms", self.interval_ms)
            _refuse_negative("delay in ms", self.delay_ms)

        def get_max_failure_rate(self) -> int:
            """Return the number of failures allowed per interval."""
            return self.max_failures

        def get_failure_interval(self) -> timedelta:
            """Return the interval over which failures are counted."""
            return timedelta(milliseconds=self.interval_ms)

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time between a failure and the restart."""
            return timedelta(milliseconds=self.delay_ms)

        def get_description(self) -> str:
            """Return a one-sentence description."""
            return (
                f"Restart {self.delay_ms} ms after each failure, "
                f"unless there are more than {self.max_failures} within {self.interval_ms} ms."
            )

        def apply_to(self, configuration: Configuration) -> None:
            """Set `restart-strategy.type: failure-rate` and its options."""
            configuration.set(restart_options.RESTART_STRATEGY, "failure-rate")
            configuration.set(restart_options.FAILURE_RATE_MAX_FAILURES, self.max_failures)
            configuration.set(restart_options.FAILURE_RATE_INTERVAL, self.interval_ms)
            configuration.set(restart_options.FAILURE_RATE_DELAY, self.delay_ms)

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """Return a strategy that never restarts."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Return the strategy of the configuration."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: TimeLength
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Return a strategy with up to `restart_attempts` restarts, each `delay_between_attempts` after the failure."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, to_milliseconds(delay_between_attempts)
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: TimeLength, delay_interval: TimeLength
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Return a strategy that restarts unless there are more than `failure_rate` failures in `failure_interval`."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, to_milliseconds(failure_interval), to_milliseconds(delay_interval)
        )


def _refuse_negative(what: str, value: int) -> None:
    if value < 0:
        raise ValueError(f"{what}: expected 0 or more, got {value!r}")
