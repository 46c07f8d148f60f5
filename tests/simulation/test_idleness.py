"""Sources that are idle for a while: event time advances without them, and waits for them when they are active."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.programs import environment, explained, script, scripted, seeds, simulate

from penstock.common.job_status import JobStatus
from penstock.common.time import Time
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction
from penstock.hosts.simulator import Circumstances, Simulation
from penstock.hosts.simulator.programs import SplitScript

pytestmark = pytest.mark.simulation

LONG_MS = 120_000
CALM = Circumstances(jump_rate=0.0)


class Alarm(KeyedProcessFunction[int, Any, Any]):
    """Fires when event time has reached each record's timestamp, and emits the processing time of that moment."""

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp, ctx.timer_service().current_processing_time()


def alarms(*scripts: SplitScript, idle_ms: int = 1_000) -> StreamExecutionEnvironment:
    """Return a program with one split for each subtask of the source."""
    env = environment(parallelism=len(scripts))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Time.milliseconds(idle_ms))
    stream = env.from_source(scripted(*scripts), strategy, "source")
    stream.key_by(lambda value: 0).process(Alarm()).print()
    return env


def fired(simulation: Simulation) -> list[tuple[int, int]]:
    """Return (timestamp, processing time) of the alarms so far."""
    return [alarm for values in simulation.results.values() for alarm in values]


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_an_idle_source_does_not_hold_back_event_time(seed: int) -> None:
    """Windows would stay open as long as one partition of the input has no records."""
    busy, silent = script(0, 6, pauses=((5, LONG_MS),)), script(1, 2, pauses=((1, 2 * LONG_MS),))
    simulation = simulate(alarms(busy, silent), seed, CALM)
    with explained(simulation):
        began_ms = simulation.clock.now_ms()
        assert simulation.run() is JobStatus.FINISHED

    early = [timestamp for timestamp, at_ms in fired(simulation) if at_ms < began_ms + LONG_MS // 2]
    assert {0, 10, 20, 30} <= set(early)


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_a_source_that_is_awake_again_holds_back_event_time_again(seed: int) -> None:
    """All its records would be late: once it has caught up, event time must wait for it."""
    ahead = script(0, 12, pace_ms=100, pauses=((3, LONG_MS), (9, LONG_MS)))
    # Asleep at 0; awake a little before the other, from 300 on, in step with what was let through.
    records = tuple((("s1", (i,), 0, i), at) for i, at in enumerate([0, 300, 400, 450]))
    back = SplitScript("s1", 1, records, ((1, LONG_MS - 5_000), (3, 2 * LONG_MS)))
    simulation = simulate(alarms(ahead, back, idle_ms=6 * LONG_MS), seed, CALM)
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED

    timestamps = [timestamp for timestamp, _ in fired(simulation)]
    assert timestamps == sorted(timestamps)
    assert len(timestamps) == len({*range(0, 1_200, 100), 450})


@pytest.mark.parametrize("seed", seeds(2, 40))
def test_when_all_are_idle_the_highest_watermark_counts_until_one_is_awake(seed: int) -> None:
    """The results of the last records before a quiet night would come only in the morning."""
    one, other = script(0, 4, pauses=((3, LONG_MS),)), script(1, 8, pauses=((7, LONG_MS),))
    simulation = simulate(alarms(one, other), seed, CALM)
    with explained(simulation):
        began_ms = simulation.clock.now_ms()
        assert simulation.run() is JobStatus.FINISHED

    early = {timestamp for timestamp, at_ms in fired(simulation) if at_ms < began_ms + LONG_MS // 2}
    assert {0, 10, 20, 30, 40, 50} <= early
    late = {timestamp for timestamp, at_ms in fired(simulation) if at_ms >= began_ms + LONG_MS // 2}
    assert 60 in late
