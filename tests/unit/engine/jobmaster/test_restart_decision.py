"""Whether a failed attempt is followed by another one: by its error, by how far it came, and by the strategy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.configuration import Configuration
from penstock.common.errors import (
    CheckpointError,
    ConfigurationError,
    DamagedCheckpointError,
    InputLostError,
    JobError,
    NotEnoughSlotsError,
    PenstockError,
    ProgramError,
    SourceError,
    TaskLostError,
    UserFunctionError,
    class_names,
)
from penstock.common.errors.user_traceback import user_traceback
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.restarts import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartDecision,
    RestartStrategy,
    restart_strategy,
)
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.rpc.failures import describe, revive
from penstock.engine.rpc.messages import FromSlot, SlotFailed, decode_to_job_master, encode
from penstock.engine.runtime.ids import AttemptId

SETTINGS = JobSettings(slot_request_timeout_ms=10_000, slots_retry_ms=7)
GRAPH = plan()
TIMES = st.lists(st.integers(0, 5_000), min_size=1, max_size=30).map(
    lambda pauses: [sum(pauses[: n + 1]) for n in range(len(pauses))]
)


def failed(error: BaseException, number: int = 1, has_run: bool = True) -> Attempt:
    """An attempt that has failed: the first one is number 0; `has_run`: all its tasks were running."""
    attempt = Attempt(AttemptId(0, number), GRAPH, lambda effect: None, 0)
    if has_run:
        attempt.deploy_if_started(0)
        for slot in attempt.slots:
            attempt.registered(slot)
    attempt.failed(error)
    return attempt


class Counting(RestartStrategy):
    """Allows all restarts, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def delay_ms(self, now_ms: int) -> int:
        self.asked.append(now_ms)
        return 100


def raised(error: Exception) -> UserFunctionError:
    """The error of a job whose function raised `error` in `open`, as it reaches the driver."""
    error.add_note("while opening the client")
    failure = UserFunctionError(f"operator 'm', in open\n{user_traceback(error)}", class_names(error))
    report = SlotFailed(*describe(failure))
    message = decode_to_job_master(encode(FromSlot(0, 0, 0, report)))
    assert isinstance(message, FromSlot) and isinstance(message.report, SlotFailed)
    arrived = revive(message.report.kind, message.report.message, message.report.raised)
    assert isinstance(arrived, UserFunctionError)
    return arrived


@pytest.mark.parametrize(
    ("error", "number", "has_run", "restarts"),
    [
        (ProgramError("two operators with one uid"), 0, False, False),
        (ProgramError("a key of a wrong type"), 5, True, False),
        (ConfigurationError("no such directory"), 5, True, False),
        (InputLostError("a table was dropped"), 5, True, False),
        (SourceError("no such file"), 0, False, False),
        (SourceError("a line that is not JSON"), 0, True, True),
        (SourceError("the bucket is away"), 1, False, True),
        (UserFunctionError("it raised"), 0, True, True),
        (raised(NameError("name 'x' is not defined")), 0, False, False),
        (raised(NameError("name 'x' is not defined")), 1, False, True),
        (raised(TypeError("None + 1")), 0, True, True),
        (raised(ConnectionRefusedError("the service")), 0, False, True),
        (raised(ConnectionError("the service answered 503:\nTypeError: upstream not ready")), 0, False, True),
        (raised(TypeError("unsupported\n  operand")), 0, False, False),
        (raised(ModuleNotFoundError("a subclass")), 0, False, False),
        (TaskLostError("a worker"), 0, False, True),
        (CheckpointError("timeout"), 3, False, True),
        (DamagedCheckpointError("a file is missing"), 3, False, True),
        (JobError("of another kind"), 0, True, True),
        (OSError("not of penstock"), 0, True, True),
    ],
)
def test_errors_that_a_restart_can_not_repair(error: Exception, number: int, has_run: bool, restarts: bool) -> None:
    """A wrong program would be tried for ever; or one lost worker would end a job that has run for a year."""
    strategy = Counting()
    decision = RestartDecision(strategy, SETTINGS)
    assert decision.delay_ms([failed(error, number, has_run)], 50) == (100 if restarts else None)
    assert strategy.asked == ([50] if restarts else []), "what is permanent does not use up a restart"


@pytest.mark.parametrize("number", [0, 1])
def test_the_wait_for_slots_ends_with_its_timeout(number: int) -> None:
    """A job would wait for ever for an executor that no one replaces, or fail if one is lost while it is deployed."""
    strategy = Counting()
    decision = RestartDecision(strategy, SETTINGS)
    too_few = failed(NotEnoughSlotsError("too few"), number, has_run=False)
    assert [decision.delay_ms([too_few], now) for now in (1_000, 5_000, 10_999)] == [7, 7, 7]
    assert strategy.asked == []
    assert decision.delay_ms([too_few], 11_000) == 100 and strategy.asked == [11_000]


def test_each_time_slots_are_missing_counts_from_its_beginning() -> None:
    """The second executor that a job loses in a day would find the time for its replacement used up."""
    strategy = Counting()
    decision = RestartDecision(strategy, SETTINGS)
    too_few = failed(NotEnoughSlotsError("too few"), has_run=False)
    assert decision.delay_ms([too_few], 0) == 7
    decision.all_tasks_started()
    assert decision.delay_ms([too_few], 1_000_000) == 7 and strategy.asked == []


@pytest.mark.parametrize(
    ("error", "has_run", "falls_back"),
    [
        (DamagedCheckpointError("a file is missing"), False, True),
        (DamagedCheckpointError("a file is missing"), True, False),
        (CheckpointError("timeout"), False, False),
        (SourceError("the bucket is away"), False, False),
        (PenstockError("of no kind"), False, False),
    ],
)
def test_only_state_that_could_not_be_restored_is_damaged(error: Exception, has_run: bool, falls_back: bool) -> None:
    """A moment without network would cost the newest checkpoint, or a damaged one would be restored for ever."""
    assert RestartDecision(NoRestart(), SETTINGS).falls_back(failed(error, 1, has_run)) == falls_back


# Strategies, for any times of failures.


@given(st.integers(0, 10), st.integers(0, 10_000), TIMES)
def test_a_fixed_number_of_restarts(attempts: int, delay_ms: int, times: list[int]) -> None:
    """A job would be tried more or fewer times than its user has set."""
    strategy = FixedDelay(attempts, delay_ms)
    delays = [strategy.delay_ms(now) for now in times]
    assert delays == [delay_ms if number < attempts else None for number in range(len(times))]


@given(TIMES)
def test_no_restart_is_none_at_all(times: list[int]) -> None:
    """A job without checkpoints would start from nothing, and write its output a second time."""
    strategy: RestartStrategy = NoRestart()
    assert {strategy.delay_ms(now) for now in times} == {None}


@given(st.integers(0, 5), st.integers(0, 10_000), TIMES)
def test_as_many_failures_as_an_interval_may_have(failures_max: int, interval_ms: int, times: list[int]) -> None:
    """A job would be given up for failures of yesterday, or go on though it fails every second."""
    strategy = FailureRate(failures_max, interval_ms, 100)
    for index, now in enumerate(times):
        in_interval = sum(now - before <= interval_ms for before in times[: index + 1])
        assert strategy.delay_ms(now) == (None if in_interval > failures_max else 100)


@given(
    initial_ms=st.integers(1, 5_000),
    more_ms=st.integers(0, 100_000),
    multiplier=st.floats(1, 10),
    jitter=st.floats(0, 1),
    chance=st.floats(0, 1),
    times=TIMES,
)
def test_delays_stay_within_their_bounds(
    initial_ms: int, more_ms: int, multiplier: float, jitter: float, chance: float, times: list[int]
) -> None:
    """A cluster that is down would be overloaded, or a job would wait for days after one bad hour."""
    strategy = ExponentialDelay(
        initial_ms=initial_ms,
        max_ms=initial_ms + more_ms,
        multiplier=multiplier,
        reset_ms=10**9,
        attempts=10**9,
        jitter=jitter,
        chance=lambda: chance,
    )
    delays = [strategy.delay_ms(now) for now in times]
    known = [delay for delay in delays if delay is not None]
    assert len(known) == len(delays) and all(initial_ms <= delay <= initial_ms + more_ms for delay in known)
    assert known == sorted(known), "with the same chance each time, a later delay is never shorter"


@pytest.mark.parametrize(("quiet_ms", "delay_ms"), [(9_999, 20), (10_000, 10)])
def test_the_quiet_time_counts_from_the_restart(quiet_ms: int, delay_ms: int) -> None:
    """A job that fails as soon as it has restarted would be restarted for ever at the shortest delay."""
    strategy = ExponentialDelay(initial_ms=10, max_ms=1_000, multiplier=2.0, reset_ms=10_000, attempts=5)
    assert strategy.delay_ms(0) == 10
    assert strategy.delay_ms(10 + quiet_ms) == delay_ms


# What a configuration names.


@pytest.mark.parametrize(
    ("settings", "failures", "delays"),
    [
        (
            {"type": "fixed-delay", "fixed-delay.attempts": "2", "fixed-delay.delay": "3 s"},
            [0, 1, 2],
            [3_000, 3_000, None],
        ),
        ({"type": "fixeddelay"}, [0, 1], [1_000, None]),
        ({"type": "FixedDelay"}, [0, 1], [1_000, None]),
        ({"type": "off"}, [0], [None]),
        ({"type": "disable"}, [0], [None]),
        (
            {
                "type": "failure-rate",
                "failure-rate.max-failures-per-interval": "2",
                "failure-rate.failure-rate-interval": "1 min",
                "failure-rate.delay": "4 s",
            },
            [0, 10, 60_001, 60_005],
            [4_000, 4_000, 4_000, None],
        ),
        ({"type": "failurerate"}, [0, 60_001, 60_002], [1_000, 1_000, None]),
        (
            {
                "type": "exponential-delay",
                "exponential-delay.initial-backoff": "2 s",
                "exponential-delay.max-backoff": "9 s",
                "exponential-delay.backoff-multiplier": "3",
                "exponential-delay.reset-backoff-threshold": "1 min",
                "exponential-delay.jitter-factor": "0",
                "exponential-delay.attempts-before-reset-backoff": "3",
            },
            [0, 1, 2, 3, 69_003],
            [2_000, 6_000, 9_000, None, 2_000],
        ),
        ({"type": "exponentialdelay"}, [0, 0, 0], [1_000, 1_500, 2_250]),
    ],
)
def test_each_setting_reaches_its_strategy(
    settings: dict[str, str], failures: list[int], delays: list[int | None]
) -> None:
    """A setting would have no effect, or the effect of another one: a delay that is taken for a number of attempts."""
    named = {f"restart-strategy.{key}": value for key, value in settings.items()}
    strategy = restart_strategy(Configuration.from_dict(named), lambda: 0.5)
    assert [strategy.delay_ms(now) for now in failures] == delays


def test_chance_moves_the_delay_within_the_jitter_that_is_set() -> None:
    """Jobs that failed together would restart together, although jitter is set."""
    named = {"restart-strategy.type": "exponential-delay", "restart-strategy.exponential-delay.jitter-factor": "0.5"}
    highest = restart_strategy(Configuration.from_dict(named), lambda: 1.0)
    assert [highest.delay_ms(0), highest.delay_ms(0)] == [1_500, 2_250]
