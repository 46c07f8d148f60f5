"""Whether a failed job is restarted, and after what time: the restart strategies, and what comes before them.

Without clock or randomness of their own: both are parameters. Source: Flink docs, "Task Failure Recovery".
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
"""What is wrong with the program, its settings or its session will be wrong in the next attempt, too; a job that
another run has taken over never comes back, and neither does input that is gone."""

_UNREAD_MAX = 3
"""Tries to read a damaged checkpoint that has no other before it."""

_MISTAKES = frozenset({"AttributeError", "ImportError", "NameError", "TypeError"})
"""Raised in `open` of a first attempt they are mistakes of the program, and not of the input or of a service."""


class RestartStrategy(ABC):
    """Is asked once for each failure of the job, however many of its regions it concerns."""

    @abstractmethod
    def delay_ms(self, now_ms: int) -> int | None:
        """The job failed at `now_ms`. Milliseconds until it is started again; None: it stays failed."""


class NoRestart(RestartStrategy):
    """The first failure is the end."""

    def delay_ms(self, now_ms: int) -> None:
        return None


class FixedDelay(RestartStrategy):
    """A number of restarts, each after the same time."""

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._left = attempts
        self._delay_ms = delay_ms

    def delay_ms(self, now_ms: int) -> int | None:
        self._left -= 1
        return self._delay_ms if self._left >= 0 else None


class FailureRate(RestartStrategy):
    """Restarts as long as at most `failures_max` failures fall into an interval."""

    def __init__(self, failures_max: int, interval_ms: int, delay_ms: int) -> None:
        # One more than is tolerated: if the oldest of them is within the interval, there were too many.
        self._failures: deque[int] = deque(maxlen=failures_max + 1)
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms

    def delay_ms(self, now_ms: int) -> int | None:
        self._failures.append(now_ms)
        full = len(self._failures) == self._failures.maxlen
        return None if full and now_ms - self._failures[0] <= self._interval_ms else self._delay_ms


class ExponentialDelay(RestartStrategy):
    """Restarts after a time that grows with each failure, and is reset after `reset_ms` without one.

    `jitter`: up to this part of the time is added or subtracted at random, so that jobs do not restart all at once.
    """

    def __init__(
        self,
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
        """When the job was to restart after the last failure: the time without failure counts from then."""

    def delay_ms(self, now_ms: int) -> int | None:
        if self._restarts_ms is not None and now_ms - self._restarts_ms >= self._reset_ms:
            self._failures = 0
            self._next_ms = float(self._initial_ms)
        self._failures += 1
        if self._failures > self._attempts:
            return None
        more = 1 + self._jitter * (2 * self._chance() - 1)
        # Jitter must not leave the bounds that the user has set.
        delay_ms = min(max(int(self._next_ms * more), self._initial_ms), self._max_ms)
        self._restarts_ms = now_ms + delay_ms
        self._next_ms = min(self._next_ms * self._multiplier, float(self._max_ms))
        return delay_ms


class RestartDecision:
    """What the job master asks when attempts have failed."""

    def __init__(self, strategy: RestartStrategy, settings: JobSettings) -> None:
        self._strategy = strategy
        self._settings = settings
        self.waits = False
        """Whether the last restart was none of the strategy's: the job waits for slots."""
        self._slots_missed_ms: int | None = None
        self._unread = 0
        """How often in a row the same checkpoint could not be read."""

    def all_run(self) -> None:
        """All tasks of the job are running."""
        self._slots_missed_ms = None
        self._unread = 0

    def fell_back(self) -> None:
        """The next attempt is restored from another checkpoint."""
        self._unread = 0

    def falls_back(self, attempt: Attempt) -> bool:
        """Whether the newest checkpoint is damaged: its state could not be read when this attempt was restored."""
        # A task registers when it has read its state: an attempt that has run has read all of the checkpoint.
        return isinstance(attempt.error, DamagedCheckpointError) and not attempt.has_run

    def is_final(self, attempt: Attempt) -> bool:
        """Whether an attempt has failed by what a restart can't repair."""
        if isinstance(attempt.error, SourceError) and attempt.number == 0 and not attempt.has_run:
            # There is nothing to read: more likely a wrong path than a store that is away for a moment.
            return True
        if attempt.number == 0 and not attempt.has_run and _is_of_the_program(attempt.error):
            return True
        return isinstance(attempt.error, _PERMANENT)

    def delay_ms(self, failed: Sequence[Attempt], now_ms: int) -> int | None:
        """Milliseconds until these attempts, which failed together, are restarted; None: the job stays failed.

        They count as one failure: Flink's strategies count failures of the job.
        """
        self.waits = False
        if any(map(self.is_final, failed)):
            return None
        if any(map(self.falls_back, failed)):
            # A deleted file stays missing; a store may have been unavailable for a moment.
            self._unread += 1
            if self._unread >= _UNREAD_MAX:
                return None
        if all(isinstance(attempt.error, NotEnoughSlotsError) for attempt in failed):
            # No failure of the job's: an executor was lost, possibly before the first attempt, and is not replaced yet.
            if self._slots_missed_ms is None:
                self._slots_missed_ms = now_ms
            wait_ms = self._settings.slots_wait_ms
            if wait_ms is None or now_ms - self._slots_missed_ms < wait_ms:
                self.waits = True
                return self._settings.slots_retry_ms
        return self._strategy.delay_ms(now_ms)


class BatchedRestarts:
    """Whether the Spark job of a batched job is run again from its beginning, and when.

    Spark runs lost and failed tasks again by itself, so what is left to a restart is the loss of Spark. The results
    of a batched job count at its end: whatever the Spark job before has made of them is dropped.
    """

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy

    def delay_ms(self, error: BaseException, now_ms: int) -> int | None:
        """Milliseconds until it is run again after this error; None: the job has failed."""
        if isinstance(error, (SparkLostError, MasterUnreachableError)):
            return self._strategy.delay_ms(now_ms)
        return None


def _is_of_the_program(error: BaseException | None) -> bool:
    """Whether a user's function raised what is a mistake in its code whenever it runs."""
    return isinstance(error, UserFunctionError) and not error.raised.isdisjoint(_MISTAKES)


def restart_strategy(configuration: Configuration, chance: Callable[[], float]) -> RestartStrategy:
    """The strategy that a configuration names; `chance` gives numbers from 0 to 1 for jitter.

    Raises ConfigurationError for an unknown name.
    """
    get = configuration.get
    # As in Flink: without checkpoints each restart would begin from nothing.
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
            get(restart_options.EXPONENTIAL_DELAY_INITIAL_BACKOFF),
            get(restart_options.EXPONENTIAL_DELAY_MAX_BACKOFF),
            get(restart_options.EXPONENTIAL_DELAY_MULTIPLIER),
            get(restart_options.EXPONENTIAL_DELAY_RESET_THRESHOLD),
            get(restart_options.EXPONENTIAL_DELAY_ATTEMPTS),
            get(restart_options.EXPONENTIAL_DELAY_JITTER),
            chance,
        )
    raise ConfigurationError(
        f"{restart_options.RESTART_STRATEGY.key}: '{name}' is none of none, fixed-delay, failure-rate, "
        "exponential-delay"
    )
