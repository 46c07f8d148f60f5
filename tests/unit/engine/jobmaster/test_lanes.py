"""Lanes of results: one after the other for a sink, side by side for different ones, on a pool that the test runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.engine.checkpoint.effects import AbortCommittables, Commit
from penstock.engine.jobmaster.effects import CloseResults, Deliver, RestartResults
from penstock.engine.jobmaster.events import CommitEnded, DeliveryFailed, JobEvent, ResultsClosed
from penstock.engine.jobmaster.results.lanes import ResultLanes
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import Opaque


class Pool:
    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def submit(self, call: Callable[[], None], /) -> None:
        self.calls.append(call)

    def shutdown(self, wait: bool = True) -> None:
        """Nothing to release."""

    def run(self, index: int = 0) -> None:
        self.calls.pop(index)()

    def run_all(self) -> None:
        while self.calls:
            self.run()


class Sink(ResultSink):
    def __init__(self) -> None:
        self.done: list[Any] = []
        self.error: Exception | None = None

    def _do(self, *what: Any) -> None:
        if self.error is not None:
            raise self.error
        self.done.append(what)

    def accept(self, subtask: int, values: list[Any]) -> None:
        self._do("accept", values)

    def commit(self, subtask: int, values: list[Any]) -> None:
        self._do("commit", values)

    def commit_again(self, subtask: int, values: list[Any]) -> None:
        self._do("again", values)

    def abort(self, subtask: int, values: list[Any]) -> None:
        self._do("abort", values)

    def succeeded(self) -> None:
        self._do("succeeded")

    def failed(self, error: BaseException) -> None:
        self.done.append(("failed", str(error)))


class Lanes:
    def __init__(self) -> None:
        self.sinks = {1: Sink(), 2: Sink()}
        self.pool = Pool()
        self.posted: list[JobEvent] = []
        self.lanes = ResultLanes(self.sinks, self.posted.append, self.pool)


def test_a_sink_is_called_in_order_and_another_one_meanwhile() -> None:
    """Output would be published in another order, or a slow committer would hold up all sinks."""
    lanes = Lanes()
    for operation in (1, 2):
        lanes.lanes.commit(Commit(operation, 1, 0, [f"a{operation}"]))
    lanes.lanes.commit(Commit(3, 2, 0, ["b"], again=True))
    lanes.pool.run(1)
    assert lanes.sinks[2].done == [("again", ["b"])] and not lanes.sinks[1].done
    lanes.pool.run_all()
    assert lanes.sinks[1].done == [("commit", ["a1"]), ("commit", ["a2"])]
    assert lanes.posted == [CommitEnded(3), CommitEnded(1), CommitEnded(2)]


def test_what_fails_is_reported_and_the_lane_goes_on() -> None:
    """A sink that fails once would never be called again."""
    lanes = Lanes()
    lanes.sinks[1].error = error = OSError("away")
    lanes.lanes.commit(Commit(1, 1, 0, ["a"]))
    lanes.lanes.abort(AbortCommittables(1, 0, ["b"]))
    lanes.pool.run_all()
    assert lanes.posted == [CommitEnded(1, error)], "what can't be removed stays"
    lanes.sinks[1].error = None
    lanes.lanes.deliver(Deliver(AttemptId(0, 0), 1, 0, Opaque(["y"])))
    lanes.pool.run_all()
    assert lanes.sinks[1].done == [("accept", ["y"])]


def test_nothing_is_committed_behind_what_has_failed_until_all_is_handed_out_again() -> None:
    """Sinks that tell by a mark what they have committed, as Delta's and Redis' do, took the failed one for done."""
    lanes = Lanes()
    sink, other = lanes.sinks[1], lanes.sinks[2]
    sink.error = error = OSError("away")
    lanes.lanes.commit(Commit(1, 1, 0, ["a"]))
    lanes.lanes.commit(Commit(2, 1, 1, ["b"]))
    lanes.pool.run()
    sink.error = None
    lanes.lanes.commit(Commit(3, 1, 0, ["c"]))
    lanes.lanes.commit(Commit(4, 2, 0, ["of another sink"]))
    lanes.lanes.restart(RestartResults(AttemptId(0, 1), frozenset({1})))
    for operation, value in enumerate("abc", 5):
        lanes.lanes.commit(Commit(operation, 1, 0, [value], again=True))
    lanes.pool.run_all()
    assert sink.done == [("again", [value]) for value in "abc"] and other.done == [("commit", ["of another sink"])]
    ended = [event for event in lanes.posted if isinstance(event, CommitEnded)]
    assert {one.operation: one.error for one in ended} == {
        1: error, 2: error, 3: error, 4: None, 5: None, 6: None, 7: None,
    }  # fmt: skip


def test_what_could_not_be_delivered_is_delivered_after_the_restart() -> None:
    """Results whose checkpoint is complete, which no task sends again, would be missing after a full disk."""
    lanes = Lanes()
    lanes.sinks[1].error = error = OSError("no space left on device")
    for value in "xy":
        lanes.lanes.deliver(Deliver(AttemptId(0, 0), 1, 0, Opaque([value])))
    lanes.lanes.deliver(Deliver(AttemptId(0, 0), 2, 0, Opaque(["of another sink"])))
    lanes.pool.run_all()
    assert lanes.posted == [DeliveryFailed(AttemptId(0, 0), error)] and lanes.sinks[2].done
    lanes.lanes.restart(RestartResults(AttemptId(0, 1), frozenset({1})))
    lanes.pool.run_all()
    assert lanes.posted[1:] == [DeliveryFailed(AttemptId(0, 1), error)], "the next attempt fails by it, too"
    lanes.sinks[1].error = None
    lanes.lanes.restart(RestartResults(AttemptId(0, 2), frozenset({1})))
    lanes.lanes.deliver(Deliver(AttemptId(0, 2), 1, 0, Opaque(["z"])))
    lanes.lanes.close(CloseResults(None))
    lanes.pool.run_all()
    assert lanes.sinks[1].done == [*(("accept", [value]) for value in "xyz"), ("succeeded",)]
    assert lanes.posted[2:] == [ResultsClosed(None)]


def test_a_restart_while_a_delivery_fails_is_not_missed() -> None:
    """The lane would wait for ever for a restart that has come: its sink would never be called again."""
    lanes = Lanes()
    tries: list[str] = []

    def accept(subtask: int, values: list[Any]) -> None:
        tries.append("accept")
        if len(tries) == 1:
            lanes.lanes.restart(RestartResults(AttemptId(0, 1), frozenset({1})))
            raise OSError("away")

    lanes.sinks[1].accept = accept  # type: ignore[method-assign]
    lanes.lanes.deliver(Deliver(AttemptId(0, 0), 1, 0, Opaque(["x"])))
    lanes.pool.run_all()
    lanes.lanes.close(CloseResults(None))
    lanes.pool.run_all()
    assert len(tries) == 2 and isinstance(lanes.posted[-1], ResultsClosed)


@pytest.mark.parametrize("works_again", [True, False])
def test_at_the_end_a_delivery_is_tried_once_more(works_again: bool) -> None:
    """A job would wait for ever for a sink that fails, or not be told that a part is missing."""
    lanes = Lanes()
    lanes.sinks[1].error = OSError("away")
    for value in "xy":
        lanes.lanes.deliver(Deliver(AttemptId(0, 0), 1, 0, Opaque([value])))
    lanes.pool.run_all()
    if works_again:
        lanes.sinks[1].error = None
    lanes.lanes.close(CloseResults(None))
    lanes.pool.run(0)
    lanes.sinks[1].error = None
    lanes.pool.run_all()
    if works_again:
        assert lanes.sinks[1].done == [("accept", ["x"]), ("accept", ["y"]), ("succeeded",)]
    else:
        assert lanes.sinks[1].done == [("failed", "away")], "nothing that follows what is missing"
    (closed,) = [event for event in lanes.posted if isinstance(event, ResultsClosed)]
    assert (closed.error is None) == works_again


def test_the_end_comes_after_everything_and_tells_every_sink() -> None:
    """A program that collects would miss its last values, or wait for ever."""
    lanes = Lanes()
    lanes.lanes.deliver(Deliver(AttemptId(0, 0), 1, 0, Opaque(["last"])))
    lanes.lanes.close(CloseResults(None))
    lanes.pool.run_all()
    assert lanes.sinks[1].done == [("accept", ["last"]), ("succeeded",)] and lanes.sinks[2].done == [("succeeded",)]
    assert lanes.posted == [ResultsClosed(None)]


def test_an_error_that_no_restart_has_repaired_fails_the_job() -> None:
    """A job would be reported as a success though its output is missing."""
    for restarted in (False, True):
        lanes = Lanes()
        lanes.sinks[1].error = OSError("away")
        lanes.lanes.commit(Commit(1, 1, 0, ["a"]))
        lanes.pool.run_all()
        lanes.sinks[1].error = None
        if restarted:
            lanes.lanes.restart(RestartResults(AttemptId(0, 1), frozenset({1, 2})))
        lanes.lanes.close(CloseResults(None))
        lanes.pool.run_all()
        (closed,) = [event for event in lanes.posted if isinstance(event, ResultsClosed)]
        assert (closed.error is None) == restarted
        assert lanes.sinks[2].done == [("succeeded",) if restarted else ("failed", "away")]


def test_a_job_without_results_ends_as_well() -> None:
    """A job whose sinks commit elsewhere would never end."""
    pool, posted = Pool(), []
    lanes = ResultLanes({}, posted.append, pool)
    lanes.commit(Commit(1, 7, 0, ["of a sink that is gone"]))
    lanes.close(CloseResults(RuntimeError("failed")))
    pool.run_all()
    assert posted == [CommitEnded(1), ResultsClosed(None)]


def test_an_outcome_that_cannot_be_posted_does_not_end_its_lane() -> None:
    """The commits of all later checkpoints would wait for ever, and nothing would say why."""
    pool, sink = Pool(), Sink()

    def post(event: JobEvent) -> None:
        if event == CommitEnded(1):
            raise OSError("too many open files")

    lanes = ResultLanes({1: sink}, post, pool)
    lanes.commit(Commit(1, 1, 0, ["a"]))
    lanes.commit(Commit(2, 1, 0, ["b"]))
    with pytest.raises(OSError, match="too many"):
        pool.run()
    lanes.commit(Commit(3, 1, 0, ["c"]))
    pool.run_all()
    assert sink.done == [("commit", [value]) for value in "abc"]


def test_a_restart_of_one_region_forgets_the_errors_of_its_sinks_only() -> None:
    """A job would be reported as a success though a sink of another region has not committed its output."""
    for restarted in ({1}, {2}, {1, 2}):
        lanes = Lanes()
        for sink in (1, 2):
            lanes.sinks[sink].error = OSError(f"sink {sink} is away")
            lanes.lanes.commit(Commit(sink, sink, 0, ["a"]))
        lanes.pool.run_all()
        for sink in lanes.sinks.values():
            sink.error = None
        lanes.lanes.restart(RestartResults(AttemptId(1, 1), frozenset(restarted)))
        lanes.lanes.close(CloseResults(None))
        lanes.pool.run_all()
        (closed,) = [event for event in lanes.posted if isinstance(event, ResultsClosed)]
        left = min({1, 2} - restarted, default=None)
        assert str(closed.error) == (f"sink {left} is away" if left else "None")


def test_only_sinks_of_the_restarted_region_discard_what_they_took() -> None:
    """What a sink of a region that runs on has taken comes from no one again: it would be missing."""
    lanes = Lanes()
    restarted: list[int] = []
    for id, sink in lanes.sinks.items():
        sink.restarted = lambda id=id: restarted.append(id)  # type: ignore[misc]
    lanes.lanes.restart(RestartResults(AttemptId(1, 1), frozenset({2, 9})))
    lanes.pool.run_all()
    assert restarted == [2]
