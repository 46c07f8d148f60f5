"""How far the sources of an alignment group may go."""

from __future__ import annotations

from penstock.common import Duration, WatermarkStrategy
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.constants import MAX_TIMESTAMP
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.watermark_groups import WatermarkGroups
from penstock.engine.plan.rescaling import rescaled
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import AlignWatermarks, ControlEvent
from penstock.service.client.plan_executor import PlanExecutor


def strategy(group: str, drift_ms: int, interval_ms: int = 100) -> WatermarkStrategy:
    drift, interval = Duration.of_millis(drift_ms), Duration.of_millis(interval_ms)
    return WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(group, drift, interval)


class Sources:
    """Sources with these strategies, of two subtasks each; `told` are the limits that were sent last."""

    def __init__(self, *strategies: WatermarkStrategy) -> None:
        plans = PlanExecutor()
        environment = StreamExecutionEnvironment(executor=plans)
        environment.set_parallelism(2)
        for number, one in enumerate(strategies):
            environment.from_source(NumberSequenceSource(0, 9), one, f"source {number}").print()
        environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)
        environment.execute("job")
        graph = self.graph = plans.graphs[0]
        self.ids = [vertex.id for vertex in graph.sources]
        self.told: dict[tuple[int, int], int] = {}
        self.sent = 0
        self.groups = WatermarkGroups(graph, self.send)

    def send(self, vertex: int, subtask: int, event: ControlEvent) -> None:
        assert isinstance(event, AlignWatermarks)
        self.told[self.ids.index(vertex), subtask] = event.max_watermark
        self.sent += 1

    def report(self, group: str, watermarks: dict[tuple[int, int], int], now_ms: int = 0) -> None:
        for (source, subtask), watermark in watermarks.items():
            self.groups.reported(SubtaskId(self.ids[source], subtask), group, watermark, now_ms)


ALL = [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_all_may_go_as_far_as_the_slowest_and_the_drift() -> None:
    """A fast topic would fill the windows with days of records before a slow one has begun."""
    sources = Sources(strategy("g", 50), strategy("g", 50))
    assert sources.groups.wake_at_ms() is None, "nobody waits for a job that has just been deployed"
    sources.report("g", {(0, 0): 1_000, (0, 1): 2_000, (1, 0): 700}, 10)
    assert sources.groups.wake_at_ms() == 110
    sources.groups.tick(109)
    assert not sources.told
    sources.groups.tick(110)
    assert sources.told == dict.fromkeys(ALL, 750), "one has no watermark yet, and holds nobody back"
    sources.report("g", {(1, 1): 600}, 111)
    sources.groups.tick(211)
    assert sources.told == dict.fromkeys(ALL, 650)
    sent = sources.sent
    sources.report("g", {(1, 1): 600}, 212)
    sources.groups.tick(312)
    assert sources.sent == sent, "what has not changed is not said again"


def test_who_is_idle_or_has_ended_holds_nobody_back() -> None:
    """The job would stand still for ever when its shortest source has ended."""
    sources = Sources(strategy("g", 50), strategy("g", 50))
    sources.report("g", {(0, 0): 100, (0, 1): MAX_TIMESTAMP, (1, 0): 700, (1, 1): 900})
    sources.groups.tick(100)
    assert sources.told[1, 1] == 150
    sources.groups.ended(SubtaskId(sources.ids[0], 0), 100)
    sources.groups.tick(200)
    assert sources.told[1, 1] == 750
    for source, subtask in ALL:
        sources.groups.ended(SubtaskId(sources.ids[source], subtask), 200)
    sources.groups.tick(300)
    assert sources.told[1, 1] == MAX_TIMESTAMP


def test_tasks_that_begin_anew_are_told_again() -> None:
    """A restarted source would run ahead without a limit, or wait for a limit from before."""
    sources = Sources(strategy("g", 50), strategy("g", 50))
    sources.report("g", dict.fromkeys(ALL, 500))
    sources.groups.tick(100)
    sources.told.clear()
    begun = [SubtaskId(sources.ids[1], 0), SubtaskId(sources.ids[1], 1), SubtaskId(99, 0)]
    sources.groups.restarted(begun, 100)
    sources.groups.tick(200)
    assert sources.told == dict.fromkeys(ALL, 550), "the same limit as before, and the new tasks don't know it"
    for source, subtask in ALL:
        sources.groups.ended(SubtaskId(sources.ids[source], subtask), 200)
    sources.groups.tick(300)
    sources.told.clear()
    sources.groups.restarted(begun, 300)
    sources.groups.tick(400)
    assert sources.told == dict.fromkeys(ALL, MAX_TIMESTAMP), "also if there is none: one may still wait for an old one"


def test_groups_and_intervals_of_their_own() -> None:
    """Sources would wait for those of another group; or more rarely than one of them wants."""
    sources = Sources(strategy("one", 50, 100), strategy("other", 10, 1_000), strategy("other", 500, 300))
    sources.report("one", {(0, 0): 100, (0, 1): 100})
    sources.report("other", {(1, 0): 900, (1, 1): 900, (2, 0): 800, (2, 1): 950})
    sources.groups.tick(100)
    assert sources.told == {(0, 0): 150, (0, 1): 150}
    assert sources.groups.wake_at_ms() == 300
    sources.groups.tick(300)
    assert (sources.told[1, 0], sources.told[2, 1]) == (810, 1_300), "each by its own drift, in the shortest interval"


def test_sources_with_other_subtasks_have_to_report_anew() -> None:
    """The group would wait for a subtask that is not there any more, or tell it how far it may go."""
    sources = Sources(strategy("g", 50), strategy("g", 50))
    sources.report("g", {(0, 0): 100, (0, 1): 900, (1, 0): 700}, 10)
    sources.groups.tick(110)
    sources.groups.rescaled(rescaled(sources.graph, {sources.ids[0]: 1}))
    sources.told.clear()
    sources.groups.restarted([SubtaskId(sources.ids[0], 0)], 200)
    sources.groups.tick(300)
    assert sources.told == dict.fromkeys([(0, 0), (1, 0), (1, 1)], 750), "of the first nothing is known"
    sources.report("g", {(0, 0): 300}, 300)
    sources.groups.tick(400)
    assert sources.told == dict.fromkeys([(0, 0), (1, 0), (1, 1)], 350)


def test_a_group_of_which_nothing_is_known_any_more_has_no_limit_to_tell() -> None:
    """The job master would fail."""
    sources = Sources(strategy("g", 50))
    sources.report("g", {(0, 0): 100}, 10)
    sources.groups.rescaled(rescaled(sources.graph, {sources.ids[0]: 3}))
    sources.groups.tick(110)
    assert not sources.told
