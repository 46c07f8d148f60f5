"""Results on their way to the driver: whatever the order of threads, in order, once, and none before its time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, delivered
from tests.unit.engine.jobmaster.test_lanes import Lanes, Pool, Sink
from tests.unit.engine.jobmaster.test_results import Recording

from penstock.common.errors import JobError
from penstock.engine.checkpoint.effects import AbortCommittables, Commit
from penstock.engine.jobmaster.checkpoint_vertices import vertex_of_sinks
from penstock.engine.jobmaster.effects import CloseResults, Deliver, RestartResults
from penstock.engine.jobmaster.events import CommitEnded, JobEvent, ResultsClosed
from penstock.engine.jobmaster.results.collected import AttemptResults
from penstock.engine.jobmaster.results.lanes import ResultLanes
from penstock.engine.jobmaster.results.result_sinks import CollectedResults, CommittedResults, ResultSink, SpillingQueue
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import Opaque, Result

# From the job master.


def test_without_checkpoints_results_come_at_once() -> None:
    """They would be held back for a checkpoint that never comes, and a program would wait for its first result."""
    for settings_, held_back in ((JobSettings(), False), (SETTINGS, True)):
        job = Job(settings_).runs()
        vertex = vertex_of_sinks(job.graph)[job.sink]
        effects = job.report(job.graph.vertices[vertex].level, Result(vertex, 0, job.sink, Opaque([1, 2]), 0))
        assert delivered(effects) == ([] if held_back else [1, 2])


def test_what_is_printed_is_not_held_back() -> None:
    """Lines would appear with the next checkpoint: minutes after the records that they show."""
    job = Job().runs()
    vertex = vertex_of_sinks(job.graph)[job.sink]
    other = Result(vertex, 0, job.sink + 1, Opaque(["printed"]), 0)
    assert delivered(job.report(job.graph.vertices[vertex].level, other)) == ["printed"]


# Lanes.


@given(
    work=st.lists(
        st.tuples(st.integers(1, 2), st.sampled_from(["accept", "commit", "abort"])), min_size=3, max_size=20
    ),
    order=st.randoms(use_true_random=False),
)
def test_whatever_order_the_pool_chooses_a_sink_sees_its_own_order(work: list[tuple[int, str]], order: Any) -> None:
    """Output would be published in an order that depends on threads: rarely, and never in a test of the user."""
    lanes = Lanes()
    for number, (sink, kind) in enumerate(work):
        if kind == "accept":
            lanes.lanes.deliver(Deliver(AttemptId(0, 0), sink, 0, Opaque([number])))
        elif kind == "commit":
            lanes.lanes.commit(Commit(number, sink, 0, [number]))
        else:
            lanes.lanes.abort(AbortCommittables(sink, 0, [number]))
        assert len(lanes.pool.calls) <= len(lanes.sinks), "one call of each sink at a time"
        if order.random() < 0.5 and lanes.pool.calls:
            lanes.pool.run(order.randrange(len(lanes.pool.calls)))
    lanes.lanes.close(CloseResults(None))
    while lanes.pool.calls:
        lanes.pool.run(order.randrange(len(lanes.pool.calls)))
    for sink, played in lanes.sinks.items():
        expected = [(kind, [number]) for number, (of, kind) in enumerate(work) if of == sink]
        assert played.done == [*expected, ("succeeded",)]
    committed = [event.operation for event in lanes.posted if isinstance(event, CommitEnded)]
    assert sorted(committed) == [number for number, (_, kind) in enumerate(work) if kind == "commit"]
    assert lanes.posted[-1] == ResultsClosed(None)


def test_a_failure_from_before_a_restart_does_not_fail_the_job() -> None:
    """A job that has repaired itself would be reported as failed at its end, for an error of the day before."""
    lanes = Lanes()
    lanes.sinks[1].error = OSError("away")
    lanes.lanes.commit(Commit(1, 1, 0, ["a"]))
    lanes.lanes.restart(RestartResults(AttemptId(0, 1), frozenset({1, 2})))
    lanes.pool.run(0)
    assert isinstance(lanes.posted[0], CommitEnded) and lanes.posted[0].error is not None
    lanes.sinks[1].error = None
    lanes.lanes.close(CloseResults(None))
    lanes.pool.run_all()
    assert lanes.posted[-1] == ResultsClosed(None)


def test_the_first_error_is_the_one_that_the_job_ends_with() -> None:
    """A user would see what followed from the error, and not the error."""
    lanes = Lanes()
    for text in ("the disk is full", "the connection is closed"):
        lanes.sinks[1].error = OSError(text)
        lanes.lanes.commit(Commit(1, 1, 0, ["a"]))
        lanes.pool.run_all()
    lanes.lanes.close(CloseResults(None))
    lanes.pool.run_all()
    (closed,) = [event for event in lanes.posted if isinstance(event, ResultsClosed)]
    assert str(closed.error) == "the disk is full"


def test_a_job_that_failed_ends_with_its_own_error() -> None:
    """A program that collects would raise the error of a sink instead of that of the function that failed."""
    lanes = Lanes()
    lanes.lanes.close(CloseResults(JobError("a function raised")))
    lanes.pool.run_all()
    assert [sink.done for sink in lanes.sinks.values()] == [[("failed", "a function raised")]] * 2
    assert lanes.posted == [ResultsClosed(None)], "the job master knows its own error"


def test_a_sink_that_fails_at_the_very_end_fails_the_job() -> None:
    """The last commit of a job without checkpoints would fail, and the job would be reported as a success."""
    lanes = Lanes()
    lanes.sinks[2].error = OSError("the last rename failed")
    lanes.lanes.close(CloseResults(None))
    lanes.pool.run_all()
    assert lanes.sinks[1].done == [("succeeded",), ("failed", "the last rename failed")]
    (closed,) = lanes.posted
    assert isinstance(closed, ResultsClosed) and str(closed.error) == "the last rename failed"


def test_results_of_a_sink_without_a_taker_are_dropped() -> None:
    """A job whose results no one takes would fail, or hold them in memory for ever."""
    lanes = Lanes()
    lanes.lanes.deliver(Deliver(AttemptId(0, 0), 9, 0, Opaque(["x"])))
    lanes.lanes.abort(AbortCommittables(9, 0, ["x"]))
    assert lanes.pool.calls == [] and lanes.posted == []


def test_each_sink_learns_of_a_restart_after_what_came_before() -> None:
    """What a sink took from the last attempt would be published with what the next one writes in its place."""
    committer = Recording()
    pool, posted = Pool(), list[JobEvent]()
    lanes = ResultLanes({1: CommittedResults(committer), 2: Sink()}, posted.append, pool)
    lanes.deliver(Deliver(AttemptId(0, 0), 1, 0, Opaque(["of attempt 0"])))
    lanes.restart(RestartResults(AttemptId(0, 1), frozenset({1, 2})))
    lanes.deliver(Deliver(AttemptId(0, 1), 1, 0, Opaque(["of attempt 1"])))
    lanes.close(CloseResults(None))
    pool.run_all()
    assert committer.calls == [("abort", ["of attempt 0"]), ("commit", ["of attempt 1"])]
    assert posted == [ResultsClosed(None)]


# Sinks.


def test_committables_with_checkpoints_go_through_at_once() -> None:
    """They would be kept until the end of a job that has none."""
    committer = Recording()
    taker = CommittedResults(committer)
    taker.commit(0, ["a"])
    taker.commit_again(1, ["b"])
    taker.abort(2, ["c"])
    assert committer.calls == [("commit", ["a"]), ("commit", ["b"]), ("abort", ["c"])]
    taker.succeeded()
    assert committer.calls[3:] == [("commit", [])], "nothing is committed twice"


def test_collected_results_are_not_discarded_when_a_checkpoint_is() -> None:
    """With a checkpoint that is complete, collected values count: they come once, also if it is restored from."""
    taker = CollectedResults()
    assert taker.exactly_once and not ResultSink.exactly_once
    taker.commit(0, [1])
    taker.commit_again(0, [2])
    taker.abort(0, [3])
    taker.restarted()
    taker.succeeded()
    assert list(taker) == [1, 2]


def test_a_sink_that_overrides_nothing_can_be_ended() -> None:
    """A result sink that needs no notification would end the job with an error."""
    sink = ResultSink()
    sink.restarted()
    sink.succeeded()
    sink.failed(JobError("x"))
    sink.abort(0, [1])
    with pytest.raises(NotImplementedError):
        sink.accept(0, [1])


# Queues.


@given(
    records_in_memory=st.integers(0, 6),
    steps=st.lists(st.lists(st.integers(), max_size=3) | st.none(), min_size=10, max_size=40),
)
def test_a_queue_keeps_everything_in_order_however_fast_it_is_read(
    records_in_memory: int, steps: list[list[int] | None]
) -> None:
    """Collected values would be lost, repeated or mixed up at the moment at which memory is full, or empty again."""
    queue = SpillingQueue(records_in_memory)
    waiting: list[list[int]] = []
    for chunk in steps:
        if chunk is not None:
            queue.put(chunk)
            waiting.append(chunk)
        elif waiting:
            assert queue.get() == waiting.pop(0)
    queue.close()
    while waiting:
        assert queue.get() == waiting.pop(0)
    assert queue.get() is None and queue.get() is None


RESULTS = st.tuples(st.just("result"), st.integers(0, 2))
COMPLETIONS = st.tuples(st.sampled_from(["barrier", "complete"]), st.integers(0, 2))


@given(st.lists(RESULTS | COMPLETIONS, min_size=15, max_size=60))
def test_held_back_results_come_once_in_order_and_not_too_early(steps: list[tuple[str, int]]) -> None:
    """A record that a job has collected would come again after a restart, or would be missing."""
    held = AttemptResults(AttemptId(0, 0))
    taken_of: dict[int, int] = defaultdict(int)
    sent: dict[int, list[tuple[int, int]]] = defaultdict(list)
    released: dict[int, list[int]] = defaultdict(list)
    complete = 0
    for number, (step, subtask) in enumerate(steps):
        if step == "result":
            held.hold_back(Result(0, subtask, 1, Opaque([number]), taken_of[subtask]))
            sent[subtask].append((number, taken_of[subtask]))
        elif step == "barrier":
            taken_of[subtask] += 1
        elif complete < min(taken_of[subtask] for subtask in range(3)):
            complete += 1
            for result in held.release(complete):
                released[result.subtask] += result.values.value
    for subtask in range(3):
        assert released[subtask] == [number for number, after in sent[subtask] if after < complete]
