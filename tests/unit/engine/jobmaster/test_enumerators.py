"""Split enumerators: what they look for elsewhere, while the job master goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.unit.engine.jobmaster.played_job import Job, delivered, savepoint_requested, sent

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source, SourceReader, SplitEnumerator
from penstock.common import WatermarkStrategy
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.errors import CheckpointError, SourceError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.connectors.base.split_enumerator import SharedSplitEnumerator
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.effect_handler import make_call
from penstock.engine.jobmaster.effects import CallAsync, Deploy, Finish, JobEffect, Reply
from penstock.engine.jobmaster.events import CancelRequested
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import AssignSplits, Opaque, RequestSplit, Result
from penstock.service.client.plan_executor import PlanExecutor

INTERVAL_MS = 5_000


class Listed(SharedSplitEnumerator):
    """Looks for its splits when it starts, and again every five seconds."""

    def __init__(self, context: EnumeratorContext, look: Callable[[], list[Any]], restored: bool = False) -> None:
        super().__init__(context, more_to_come=True, restored=restored)
        self.context = context
        self.look = look

    def start(self) -> None:
        self.context.call_async(self.look, self._found)

    def discover(self) -> int:
        if self.context.now_ms() % INTERVAL_MS == 0:
            self.context.call_async(self.look, self._found)
        return self.context.now_ms() // INTERVAL_MS * INTERVAL_MS + INTERVAL_MS

    def _found(self, splits: list[str] | None, error: Exception | None) -> None:
        if error is not None:
            raise error
        self.add_splits(splits or [])

    def snapshot_state(self) -> list[Any]:
        return self.pending()


class Soon(Listed):
    """Looks again at a time of numpy's."""

    def discover(self) -> Any:
        return np.int64(INTERVAL_MS)


class Lasting(Listed):
    """Returns a length of time."""

    def discover(self) -> Any:
        return timedelta(milliseconds=INTERVAL_MS)


class Listing(Source[int]):
    def __init__(self, look: Callable[[], list[Any]], kind: type[Listed] = Listed) -> None:
        self.look = look
        self.kind = kind

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        return self.kind(context, self.look)

    def restore_enumerator(self, context: EnumeratorContext, state: Any) -> SplitEnumerator:
        return Listed(context, self.look, restored=True)

    def create_reader(self, context: ReaderContext) -> SourceReader[int]:
        raise NotImplementedError


def plan_of(look: Callable[[], list[Any]], kind: type[Listed] = Listed) -> JobGraph:
    plans = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=plans)
    environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    environment.set_parallelism(1)
    environment.from_source(Listing(look, kind), WatermarkStrategy.no_watermarks(), "listing").print()
    environment.execute("job")
    return plans.graphs[0]


def call_of(effects: list[JobEffect]) -> CallAsync:
    return next(effect for effect in reversed(effects) if isinstance(effect, CallAsync))


def deployed(effects: list[JobEffect]) -> bool:
    return any(isinstance(effect, Deploy) for effect in effects)


def away() -> list[str]:
    raise SourceError("there is no such bucket")


def test_tasks_are_deployed_when_the_splits_are_known() -> None:
    """A wrong path would be found when Spark has started, or a snapshot would miss what has not been found yet."""
    job = Job(graph=plan_of(lambda: ["a"]))
    assert not deployed(job.effects)
    assert deployed(job.handle(make_call(call_of(job.effects))))
    job.runs()
    assert AssignSplits in sent(job.report(0, RequestSplit(0, 0)))


def test_a_listing_that_hangs_holds_up_nothing_else() -> None:
    """It would be taken for slots that are missing, or keep a job from being cancelled."""
    job = Job(graph=plan_of(lambda: ["a"]))
    assert job.master.wake_at_ms() is None
    assert not job.waits(INTERVAL_MS)
    effects = job.handle(CancelRequested())
    assert next(effect for effect in effects if isinstance(effect, Finish)).status is JobStatus.CANCELED


def test_a_later_listing_that_hangs_holds_up_nothing_else() -> None:
    """Heartbeats and checkpoints would wait as long as a store does."""
    job = Job(graph=plan_of(lambda: ["a"]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    job.now_ms = INTERVAL_MS
    call = call_of(job.waits(0))
    job.takes_checkpoint()
    assert job.completed == [1] and job.master.status is JobStatus.RUNNING
    job.handle(make_call(call))
    assert AssignSplits in sent(job.report(0, RequestSplit(0, 0)))


def test_when_to_look_again_is_any_whole_number() -> None:
    """A time of numpy's would be refused; a length of time would end the job master, without the enumerator's name."""
    job = Job(graph=plan_of(lambda: ["a"], Soon))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    at_ms = job.master.wake_at_ms()
    assert at_ms is not None and at_ms <= INTERVAL_MS
    job = Job(graph=plan_of(lambda: ["a"], Lasting))
    job.handle(make_call(call_of(job.effects)))
    assert job.finish is not None
    assert "Lasting.discover returned datetime.timedelta(seconds=5) of type timedelta: expected a" in str(
        job.finish.error
    )


def test_nothing_to_read_fails_the_first_attempt_for_good() -> None:
    """A misspelt path would be tried again and again."""
    job = Job(graph=plan_of(away))
    effects = job.handle(make_call(call_of(job.effects)))
    assert not deployed(effects)
    assert job.finish is not None and job.finish.status is JobStatus.FAILED
    assert "no such bucket" in str(job.finish.error)


def test_nothing_to_read_after_a_restart_is_tried_again() -> None:
    """A store that is away for a moment would end a job that has run for a year."""
    stores: list[Callable[[], list[Any]]] = [lambda: ["a"], away, lambda: ["a"]]
    job = Job(graph=plan_of(lambda: stores.pop(0)()))
    job.handle(make_call(call_of(job.effects)))
    job.runs().fails(TaskLostError("a worker"))
    job.handle(make_call(call_of(job.waits(100))))
    assert job.master.status is JobStatus.RESTARTING
    assert deployed(job.handle(make_call(call_of(job.waits(100)))))


def test_an_answer_to_an_earlier_attempt_is_dropped() -> None:
    """Splits would be assigned twice."""
    job = Job(graph=plan_of(lambda: ["a"]))
    early = call_of(job.effects)
    job.handle(make_call(early))
    job.runs()
    job.now_ms = INTERVAL_MS
    late = call_of(job.waits(0))
    job.fails(TaskLostError("a worker"))
    assert not deployed(job.handle(make_call(late)))
    call = call_of(job.waits(100))
    assert not deployed(job.handle(make_call(late)))
    assert deployed(job.handle(make_call(call)))


@pytest.mark.parametrize("end", [CancelRequested(), None])
def test_an_answer_after_the_end_changes_nothing(end: CancelRequested | None) -> None:
    """An enumerator that is closed would be called."""
    job = Job(graph=plan_of(lambda: ["a"]), attempts=0)
    call = call_of(job.effects)
    if end is not None:
        job.handle(end)
    else:
        job.handle(make_call(CallAsync(AttemptId(0, 0), call.number, away)))
    assert job.finish is not None
    assert not job.handle(make_call(call))


def failing_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Listed) -> list[Any]:
        raise SourceError("no snapshot of these splits")

    monkeypatch.setattr(Listed, "snapshot_state", fail)


def test_a_savepoint_is_answered_though_an_enumerator_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its user would wait for ever."""
    job = Job(graph=plan_of(lambda: ["a"]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    failing_snapshot(monkeypatch)
    effects = job.handle(savepoint_requested(1, "/sp"))
    assert [type(effect.error) for effect in effects if isinstance(effect, Reply)] == [CheckpointError]
    assert "source .listing.: no snapshot" in str(job.attempt.error).replace("'", ".")


def test_results_of_a_checkpoint_are_delivered_though_the_next_one_can_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that is restored from that checkpoint would never send them again."""
    job = Job(graph=plan_of(lambda: ["a"]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    job.report(0, Result(0, 0, job.sink, Opaque(["collected"]), 0))
    checkpoint = job.begins_checkpoint()
    job.handle(savepoint_requested(1, "/sp"))
    failing_snapshot(monkeypatch)
    assert delivered(job.acknowledges(checkpoint)) == ["collected"]
    assert "source .listing.: no snapshot" in str(job.attempt.error).replace("'", ".")


def test_a_split_that_can_not_be_pickled_fails_the_job() -> None:
    """The thread that sends it would end with the error, and the job would hang."""
    job = Job(graph=plan_of(lambda: [lambda: None]))
    job.handle(make_call(call_of(job.effects)))
    job.runs()
    assert AssignSplits not in sent(job.report(0, RequestSplit(0, 0)))
    assert "pickle" in str(job.attempt.error)


def test_a_call_that_ends_its_thread_fails_the_job() -> None:
    """The job would wait for its splits for ever."""
    job = Job(graph=plan_of(lambda: sys.exit(3)), attempts=0)
    job.handle(make_call(call_of(job.effects)))
    assert job.finish is not None and "sys.exit" in str(job.finish.error)
