"""Decide whether and when a failed job is restarted.

The clock and randomness are parameters. Source: Flink docs, "Task Failure Recovery".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

from penstock.common.configuration import Configuration, restart_options
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.errors import (
    ConfigurationError,
    DamagedCheckpointError,
    FencedError,
    InputLostError,
    MasterUnreachableError,
    NotEnoughSlotsError,
    ProgramError,
    SessionLostError,
    SourceError,
    SparkLostError,
    UserFunctionError,
)
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.settings import JobSettings

_PERMANENT = (ProgramError, ConfigurationError, FencedError, SessionLostError, InputLostError)
"""Errors that the next attempt would repeat: in the program, its settings or its session, or because another run has
taken the job over or input is gone."""

_READ_TRIES_MAX = 3
"""Tries to read a damaged checkpoint without another one before it."""

_MISTAKES = frozenset({"AttributeError", "ImportError", "NameError", "TypeError"})
"""Errors that, in `open` of a first attempt, are mistakes in the program, not problems of the input or a service."""


class RestartStrategy(ABC):
    """Decide about restarts. The JobMaster calls it once per failure of the job, even if several regions failed."""

    @abstractmethod
    def delay_ms(self, now_ms: int) -> int | None:
        """Return the delay of the restart after a failure at `now_ms`, or None to fail the job."""


class NoRestart(RestartStrategy):
    """Fail the job at its first failure."""

    def delay_ms(self, now_ms: int) -> None:
        return None


class FixedDelay(RestartStrategy):
    """Restart a number of times, each with the same delay."""

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._left = attempts
        self._delay_ms = delay_ms

    def delay_ms(self, now_ms: int) -> int | None:
        self._left -= 1
        return self._delay_ms if self._left >= 0 else None


class FailureRate(RestartStrategy):
    """Restart as long as at most `failures_max` failures occur in an interval."""

    def __init__(self, failures_max: int, interval_ms: int, delay_ms: int) -> None:
        # One more than tolerated: if the oldest of them is within the interval, there were too many.
        self._failures: deque[int] = deque(maxlen=failures_max + 1)
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms

    def delay_ms(self, now_ms: int) -> int | None:
        self._failures.append(now_ms)
        full = len(self._failures) == self._failures.maxlen
        return None if full and now_ms - self._failures[0] <= self._interval_ms else self._delay_ms


class ExponentialDelay(RestartStrategy):
    """Restart with a delay that grows with each failure and is reset after `reset_ms` without a failure.

    `jitter`: up to this part of the delay is added or subtracted at random, so that jobs do not all restart together.
    """

    def __init__(
        self,
        *,
        initial_ms: int,
        max_ms: int,
        multiplier: float,
        reset_ms: int,
        attempts: int,
        jitter: float = 0,
        chance: Callable[[], float] = lambda: 0.5,
    ) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max_ms
        self._multiplier = multiplier
        self._reset_ms = reset_ms
        self._attempts = attempts
        self._failures = 0
        self._next_ms = float(initial_ms)
        self._jitter = jitter
        self._chance = chance
        self._restarts_ms: int | None = None
        """Time of the last restart, from which the time without failure counts."""

    def delay_ms(self, now_ms: int) -> int | None:
        if self._restarts_ms is not None and now_ms - self._restarts_ms >= self._reset_ms:
            self._failures = 0
            self._next_ms = float(self._initial_ms)
        self._failures += 1
        if self._failures > self._attempts:
            return None
        more = 1 + self._jitter * (2 * self._chance() - 1)
        # Jitter must not exceed the user's bounds.
        delay_ms = min(max(int(self._next_ms * more), self._initial_ms), self._max_ms)
        self._restarts_ms = now_ms + delay_ms
        self._next_ms = min(self._next_ms * self._multiplier, float(self._max_ms))
        return delay_ms


class RestartDecision:
    """Decide whether failed attempts are restarted, before and with the restart strategy."""

    def __init__(self, strategy: RestartStrategy, settings: JobSettings) -> None:
        self._strategy = strategy
        self._settings = settings
        self.waits_for_slots = False
        """Whether the last restart waits for slots, without the strategy."""
        self._slots_missing_since_ms: int | None = None
        self._failed_reads = 0
        """Consecutive failures to read the same checkpoint."""

    def all_tasks_started(self) -> None:
        """Reset counts: all tasks of the job are running."""
        self._slots_missing_since_ms = None
        self._failed_reads = 0

    def fell_back(self) -> None:
        """Reset the count of failed reads: the next attempt is restored from another checkpoint."""
        self._failed_reads = 0

    def falls_back(self, attempt: Attempt) -> bool:
        """Return whether an attempt failed because the newest checkpoint is damaged."""
        # Tasks register after reading their state: an attempt that has run has read all of the checkpoint.
        return isinstance(attempt.error, DamagedCheckpointError) and not attempt.has_run

    def is_final(self, attempt: Attempt) -> bool:
        """Return whether a restart cannot repair the failure of an attempt."""
        if isinstance(attempt.error, SourceError) and attempt.number == 0 and not attempt.has_run:
            # A source with nothing to read more likely has a wrong path than an unavailable store.
            return True
        if attempt.number == 0 and not attempt.has_run and _is_of_the_program(attempt.error):
            return True
        return isinstance(attempt.error, _PERMANENT)

    def delay_ms(self, failed: Sequence[Attempt], now_ms: int) -> int | None:
        """Return the delay until these attempts, which failed together, are restarted, or None to fail the job.

        They count as one failure, because Flink's strategies count failures of the job.
        """
        self.waits_for_slots = False
        if any(map(self.is_final, failed)):
            return None
        if any(map(self.falls_back, failed)):
            # Try again: a deleted file stays missing, but a store may be unavailable for a moment.
            self._failed_reads += 1
            if self._failed_reads >= _READ_TRIES_MAX:
                return None
        if all(isinstance(attempt.error, NotEnoughSlotsError) for attempt in failed):
            # The job itself did not fail: a lost executor, possibly before the first attempt, is not replaced yet.
            if self._slots_missing_since_ms is None:
                self._slots_missing_since_ms = now_ms
            wait_ms = self._settings.slots_wait_ms
            if wait_ms is None or now_ms - self._slots_missing_since_ms < wait_ms:
                self.waits_for_slots = True
                return self._settings.slots_retry_ms
        return self._strategy.delay_ms(now_ms)


class BatchedRestarts:
    """Decide whether and when the Spark job of a batched job is run again from its beginning.

    Spark itself repeats lost and failed tasks, so only the loss of Spark needs a restart. The results of a batched job
    count at its end: those of the lost Spark job are dropped.
    """

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy

    def delay_ms(self, error: BaseException, now_ms: int) -> int | None:
        """Return the delay until it is run again after this error, or None to fail the job."""
        if isinstance(error, (SparkLostError, MasterUnreachableError)):
            return self._strategy.delay_ms(now_ms)
        return None


def _is_of_the_program(error: BaseException | None) -> bool:
    """Return whether a user's function raised an error that is a mistake in its code."""
    return isinstance(error, UserFunctionError) and not error.raised.isdisjoint(_MISTAKES)


def restart_strategy(configuration: Configuration, chance: Callable[[], float]) -> RestartStrategy:
    """Return the strategy of a configuration. `chance` returns numbers from 0 to 1 for jitter.

    Raises ConfigurationError for an unknown name.
    """
    get = configuration.get
    # As in Flink: without checkpoints each restart would begin from the start.
    default = "exponential-delay" if checkpoint_interval_ms(configuration) is not None else "none"
    name = (get(restart_options.RESTART_STRATEGY) or default).strip().lower()
    if name in ("none", "off", "disable"):
        return NoRestart()
    if name in ("fixed-delay", "fixeddelay"):
        return FixedDelay(get(restart_options.FIXED_DELAY_ATTEMPTS), get(restart_options.FIXED_DELAY))
    if name in ("failure-rate", "failurerate"):
        return FailureRate(
            get(restart_options.FAILURE_RATE_MAX_FAILURES),
            get(restart_options.FAILURE_RATE_INTERVAL),
            get(restart_options.FAILURE_RATE_DELAY),
        )
    if name in ("exponential-delay", "exponentialdelay"):
        return ExponentialDelay(
            initial_ms=get(restart_options.EXPONENTIAL_DELAY_INITIAL_BACKOFF),
            max_ms=get(restart_options.EXPONENTIAL_DELAY_MAX_BACKOFF),
            multiplier=get(restart_options.EXPONENTIAL_DELAY_MULTIPLIER),
            reset_ms=get(restart_options.EXPONENTIAL_DELAY_RESET_THRESHOLD),
            attempts=get(restart_options.EXPONENTIAL_DELAY_ATTEMPTS),
            jitter=get(restart_options.EXPONENTIAL_DELAY_JITTER),
            chance=chance,
        )
    raise ConfigurationError(
        f"{restart_options.RESTART_STRATEGY.key} must be one of none, fixed-delay, failure-rate, exponential-delay, "
        f"got '{name}'"
    )
