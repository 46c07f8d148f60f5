"""The autoscaler of a running job: what it is told, and how its decisions are carried out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, deployed, plan, savepoint_requested, sent

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.jobmaster.autoscaling.topology import Feed, topology_of
from penstock.engine.jobmaster.effects import CountSlots, JobEffect
from penstock.engine.jobmaster.events import RescaleRequested, SlotsCounted
from penstock.engine.jobmaster.notices import Autoscaled, Rescaling
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.engine.rpc.messages import Heartbeat, OperatorReport, Register, TaskReport
from penstock.engine.runtime.task.events import Finished, TriggerCheckpoint
from penstock.service.client.plan_executor import PlanExecutor

AUTOSCALER = AutoscalerSettings(stabilization_ms=1_000, window_ms=3_000, scale_down_interval_ms=0)
EVERY_MS = 500


def settings_of(autoscaler: AutoscalerSettings | None) -> JobSettings:
    return dataclasses.replace(SETTINGS, autoscaler=autoscaler)


class Loaded:
    """A job whose reducer is busy all the time, and holds back a source that has twice as much."""

    def __init__(self, autoscaler: AutoscalerSettings | None = AUTOSCALER) -> None:
        self.job = Job(settings_of(autoscaler)).runs()
        self.ms = 0

    def works(self, ms: int) -> list[JobEffect]:
        """Time passes, and all tasks report."""
        effects: list[JobEffect] = []
        for _ in range(ms // EVERY_MS):
            self.ms += EVERY_MS
            effects += self.job.waits(EVERY_MS)
            for vertex, level, shares in ((0, 0, (0.5, 0.0, 0.5)), (1, 1, (1.0, 0.0, 0.0))):
                for subtask in range(self.job.attempt.graph.vertices[vertex].parallelism):
                    report = self._report(vertex, subtask, shares)
                    effects += self.job.report(level, Heartbeat([report]), index=subtask)
        return effects

    def _report(self, vertex: int, subtask: int, shares: tuple[float, float, float]) -> TaskReport:
        busy, idle, held = (round(share * self.ms * 1_000_000) for share in shares)
        names = self.job.graph.vertices[vertex].operators
        operators = [OperatorReport(name, self.ms, self.ms, 0, 0, {}) for name in names]
        return TaskReport(vertex, subtask, 0, 0, 0, 0, busy, idle, held, 0, 0, 0, operators)

    def closes(self) -> list[JobEffect]:
        """All tasks close, and those of the next attempt register."""
        effects: list[JobEffect] = []
        for slot, tasks in self.job.attempt.slots.items():
            for task in tasks:
                effects += self.job.report(slot.level, Finished(*task), index=slot.index)
        for level, index in self.job.attempt.slots:
            effects += self.job.report(level, Register(), index=index)
        self.ms = 0
        return effects


def counts(effects: Iterable[JobEffect]) -> int:
    return sum(isinstance(effect, CountSlots) for effect in effects)


def told(effects: Iterable[JobEffect]) -> list[Autoscaled]:
    return [effect for effect in effects if isinstance(effect, Autoscaled)]


def test_a_job_that_is_too_slow_is_rescaled() -> None:
    """A user would have to watch each job, and give it subtasks by hand."""
    loaded = Loaded()
    assert not counts(loaded.works(3_500)), "the window is not full yet"
    assert counts(loaded.works(2_000)) == 1, "once, as long as the answer is not there"
    (notice,) = told(loaded.job.handle(SlotsCounted(62)))
    assert notice.done and notice.decision.parallelism == {1: 4}, "2,000 records/s, of which one can do 1,000"
    assert TriggerCheckpoint in sent(loaded.job.effects), "it goes on from a checkpoint"
    assert any(isinstance(effect, Rescaling) for effect in loaded.job.acknowledges(1))
    assert deployed(loaded.closes()) and len(loaded.job.attempt.slots) == 5
    assert loaded.job.master.status is JobStatus.RUNNING and loaded.job.master.restarts == 0
    assert loaded.job.recorder.published.autoscaled == (notice,) and loaded.job.master.autoscaled == notice


def test_without_one_nothing_happens() -> None:
    """The parallelism that its program sets would not be that of the job."""
    loaded = Loaded(None)
    assert not counts(loaded.works(60_000)) and loaded.job.master.autoscaled is None


def test_after_a_change_it_measures_anew() -> None:
    """Counters of subtasks that are gone would decide about those that have just begun."""
    loaded = Loaded()
    loaded.works(5_500)
    loaded.job.handle(SlotsCounted(62))
    loaded.job.acknowledges(1)
    loaded.closes()
    assert not counts(loaded.works(3_500))
    assert counts(loaded.works(2_000)) == 1


def test_it_wakes_when_a_sample_is_due() -> None:
    """In a job where nothing else happens nobody would look."""
    loaded = Loaded()
    loaded.works(2_000)
    master = loaded.job.master
    wake_ms = master.wake_at_ms()
    assert wake_ms is not None and wake_ms <= loaded.job.now_ms + AUTOSCALER.sample_every_ms
    periodic_ms = master.wake_at_ms(checkpoints=False)
    assert periodic_ms is None or periodic_ms > wake_ms, "a job in which nothing happens has ended, or hangs"


def test_what_is_not_done_is_said_once() -> None:
    """A log would say each second that there are no slots, or never."""
    loaded = Loaded()
    loaded.works(5_500)
    (notice,) = told(loaded.job.handle(SlotsCounted(2)))
    assert not notice.done and "3 more slots are needed, but Spark has 0 free slots" in str(notice.decision)
    assert not loaded.job.master.coordinator.under_way
    assert counts(loaded.works(EVERY_MS)) == 1, "slots may have come"
    assert not told(loaded.job.handle(SlotsCounted(2)))


def test_as_much_as_fits_is_done() -> None:
    """A job would stay as small as it is because it can't become as large as it should."""
    loaded = Loaded()
    loaded.works(5_500)
    (notice,) = told(loaded.job.handle(SlotsCounted(3)))
    assert notice.done and notice.decision.parallelism == {1: 2}


def test_slots_that_can_not_be_counted_leave_the_job_as_it_is() -> None:
    """The job would wait for an answer that never comes, and never be scaled again."""
    loaded = Loaded()
    loaded.works(5_500)
    (notice,) = told(loaded.job.handle(SlotsCounted(error="Spark does not answer")))
    assert not notice.done and notice.why == "Spark does not answer"
    loaded.works(EVERY_MS)
    assert told(loaded.job.handle(SlotsCounted(62)))[0].done


def test_it_may_only_say_what_it_would_do() -> None:
    """Who tries it out would have a job that does what it wants."""
    loaded = Loaded(dataclasses.replace(AUTOSCALER, is_scaling=False))
    effects = loaded.works(20_000)
    (notice,) = told(effects)
    assert not counts(effects) and not notice.done and notice.decision.parallelism == {1: 4}
    assert notice.why == "job.autoscaler.scaling.enabled is false"


def test_a_job_that_is_about_to_end_ends() -> None:
    """It would be asked to rescale again and again while its user waits for its end."""
    loaded = Loaded()
    loaded.works(5_500)
    loaded.job.handle(savepoint_requested(8, "/sp", stop=True))
    done, refused = told(loaded.job.handle(SlotsCounted(62)))
    assert done.done and not refused.done and "about to end" in refused.why
    assert not counts(loaded.works(3_000)), "it measures anew"


def test_a_change_of_the_users_comes_first() -> None:
    """Two changes would be under way at once."""
    loaded = Loaded()
    loaded.works(5_500)
    loaded.job.handle(RescaleRequested(7, {1: 2}))
    assert not told(loaded.job.handle(SlotsCounted(62)))
    loaded.job.acknowledges(1)
    loaded.closes()
    assert len(loaded.job.attempt.slots) == 3


def test_an_answer_from_before_a_restart_does_not_count() -> None:
    """Subtasks would be given to a job whose load nobody has measured yet."""
    loaded = Loaded()
    loaded.works(5_500)
    loaded.job.fails(TaskLostError("a worker is gone"))
    loaded.job.restarts().runs()
    assert not told(loaded.job.handle(SlotsCounted(62)))


def test_a_job_without_checkpoints_can_not_have_one() -> None:
    """It would say each half an hour that it can't do what it was told to."""
    configuration = Configuration()
    configuration.set_string("job.autoscaler.enabled", "true")
    with pytest.raises(ConfigurationError, match=r"needs execution\.checkpointing\.interval"):
        JobSettings.of(configuration)
    configuration.set_string("execution.checkpointing.interval", "1 s")
    assert JobSettings.of(configuration).autoscaler == AutoscalerSettings()


def test_a_loop_as_the_autoscaler_sees_it() -> None:
    """What is fed back would count as input from a vertex that nobody has looked at yet."""
    plans = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=plans)
    environment.set_parallelism(2)
    head = environment.from_collection([1, 2]).rebalance().map(lambda n: n).iterate()
    body = head.map(lambda n: n // 2)
    head.close_with(body.filter(lambda n: n > 1))
    body.print()
    environment.execute("loop")
    topology = topology_of(plans.graphs[0], frozenset())
    assert all(feed.vertex < vertex.id for vertex in topology for feed in vertex.feeds)
    assert any(edge.feedback for edge in plans.graphs[0].edges)


def test_operators_that_change_together_as_the_autoscaler_sees_them() -> None:
    """Each of them would be asked for alone, and the plan refuse it."""
    plans = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=plans)
    numbers = environment.from_collection([1, 2]).rebalance().map(lambda n: n).set_parallelism(3)
    numbers.map(lambda n: n).set_parallelism(3).disable_chaining().print().set_parallelism(3)
    environment.execute("together")
    assert [vertex.group for vertex in topology_of(plans.graphs[0], frozenset())][:3] == [0, 1, 1]


def test_a_plan_as_the_autoscaler_sees_it() -> None:
    """It would ask for what the plan refuses, and a job would never be scaled."""
    graph = plan(parallelism=2)
    source, sums = topology_of(graph, frozenset())
    assert (source.feeds, source.keyed, source.parallelism) == ((), False, 1)
    assert source.fixed.startswith("one subtask reads a collection")
    assert (sums.feeds, sums.keyed, sums.parallelism, sums.most, sums.fixed) == ((Feed(0, 0),), True, 2, 128, "")
    for name in (sums.name, vertex_id(graph.vertices[1]), graph.vertices[1].nodes[-1].name):
        assert topology_of(graph, frozenset({name}))[1].fixed
