"""Results of batched tasks, from slots to the driver's disk, over a real connection."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pytest

from penstock.common.errors import TaskLostError
from penstock.engine.rpc.client import ControlClient
from penstock.engine.rpc.messages import FromSlot, Heartbeat, Register, TaskReport
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import Finished, Opaque, Result
from penstock.hosts.spark.driver.batched_run import BatchedResults
from penstock.hosts.spark.worker.result_sender import ConnectedResultSender

SINK = 5


@pytest.fixture
def failures() -> list[BaseException]:
    return []


@pytest.fixture
def results(failures: list[BaseException]) -> Iterator[BatchedResults]:
    results = BatchedResults(ControlServer("127.0.0.1"), failures.append)
    yield results
    results.close()


def sends(results: BatchedResults, run: int, *chunks: list, subtask: int = 0) -> None:
    """Run a task attempt of a slot to its end."""
    sender = ConnectedResultSender(results.address, 1000, attempt=run, level=1, index=subtask)
    for values in chunks:
        sender.send(Result(2, subtask, SINK, Opaque(values)))
    sender.finish(SubtaskId(2, subtask), threading.Event())
    sender.close()


def of(results: BatchedResults, run: int) -> list:
    return [(sink, subtask, values.value) for sink, subtask, values in results.read(run)]


def test_results_are_stored_by_attempt(results: BatchedResults) -> None:
    """Results of a lost task would appear twice."""
    sends(results, 1, ["a"], ["b", "c"])
    sends(results, 2, ["a", "b"], ["c"], subtask=1)
    assert of(results, 2) == [(SINK, 1, ["a", "b"]), (SINK, 1, ["c"])]
    assert of(results, 1) == [(SINK, 0, ["a"]), (SINK, 0, ["b", "c"])]
    assert of(results, 3) == []
    assert of(results, 1) == [], "they are given once"


def test_everything_has_arrived_when_a_slot_has_finished(results: BatchedResults) -> None:
    """The last results of a task whose process ends at once would be missing."""
    threads = [
        threading.Thread(target=sends, args=(results, run, *([n] * 10 for n in range(2000)))) for run in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in range(3):
        assert [values for _, _, values in of(results, run)] == [[n] * 10 for n in range(2000)]


def test_a_slot_without_results_does_not_connect(results: BatchedResults) -> None:
    """Each task of a batch that only writes files would need a way to the driver."""
    sender = ConnectedResultSender(results.address, 1000, attempt=1, level=0, index=0)
    sender.finish(SubtaskId(0, 0), threading.Event())
    sender.close()
    assert of(results, 1) == []


def test_a_slot_that_spark_has_given_up_does_not_wait_for_the_driver() -> None:
    """A worker of a canceled job would stay until it is killed."""
    results = BatchedResults(ControlServer("127.0.0.1"), lambda error: None)
    sender = ConnectedResultSender(results.address, 1000, attempt=1, level=0, index=0)
    results.close()
    sender.send(Result(2, 0, SINK, Opaque(["a"])))
    abandoned = threading.Event()
    abandoned.set()
    sender.finish(SubtaskId(2, 0), abandoned)
    sender.close()


def test_a_task_whose_results_were_lost_with_a_connection_has_to_run_again() -> None:
    """A job would succeed with a part of its results: no other check finds a missing one."""
    heard = threading.Event()
    results = BatchedResults(ControlServer("127.0.0.1"), lambda error: None, on_report=lambda message: heard.set())
    sender = ConnectedResultSender(results.address, 1000, attempt=1, level=0, index=0)
    sender.send(Result(2, 0, SINK, Opaque(["a"])))
    # As though there had been another one, which never arrives.
    lost = ControlClient(results.address, lambda message: None, lambda sent: FromSlot(1, 0, 0, Heartbeat([])), 10_000)
    lost.send(FromSlot(1, 0, 0, Heartbeat([], 2)))
    assert heard.wait(30), "another connection's messages can arrive later"
    lost.close()
    with pytest.raises(TaskLostError, match="has to run again"):
        sender.finish(SubtaskId(2, 0), threading.Event())
    sender.close()
    results.close()


class FullDisk(io.BytesIO):
    """Takes nothing."""

    def write(self, data) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_fails_the_job(failures: list[BaseException]) -> None:
    """The job would succeed with a part of its results."""
    results = BatchedResults(ControlServer("127.0.0.1"), failures.append, FullDisk())
    try:
        sends(results, 1, ["a"], ["b"])
    finally:
        results.close()
    assert [str(error) for error in failures] == ["[Errno 28] No space left on device"]


def test_lines_for_the_driver_arrive_to_the_last() -> None:
    """The output that explains a failure on another machine would be lost."""
    logged: list[tuple[int, int, str]] = []
    heard = threading.Event()

    def on_report(message: FromSlot) -> None:
        if isinstance(message.report, Heartbeat) and message.report.log:
            logged.append((message.level, message.index, message.report.log))
            heard.set()

    results = BatchedResults(ControlServer("127.0.0.1"), lambda error: None, on_report=on_report)
    written = ["while it runs"]
    take = lambda: written.pop() if written else ""  # noqa: E731
    sender = ConnectedResultSender(results.address, 10, attempt=7, level=1, index=3, is_reported=True, take_log=take)
    sender.begin(list)
    assert heard.wait(30)
    heard.clear()
    written.append("as it fails")
    # Without `finish`, to which a slot that fails does not come.
    sender.close()
    assert heard.wait(30)
    results.close()
    assert logged == [(1, 3, "while it runs"), (1, 3, "as it fails")]


def test_slots_of_a_served_job_report_progress_with_and_without_results() -> None:
    """A user would see tasks that never start, and counters of zero until the end."""
    told: list[FromSlot] = []
    heard = threading.Event()

    def on_report(message: FromSlot) -> None:
        told.append(message)
        if isinstance(message.report, Heartbeat) and message.report.reports:
            heard.set()

    results = BatchedResults(ControlServer("127.0.0.1"), lambda error: None, on_report=on_report)
    sender = ConnectedResultSender(results.address, 10, attempt=7, level=1, index=0, is_reported=True)
    sender.begin(lambda: [TaskReport(2, 0, *[0] * 10, [])])
    assert heard.wait(30)
    sender.finish(SubtaskId(2, 0), threading.Event())
    sender.close()
    results.close()
    kinds = [type(message.report) for message in told]
    assert kinds[0] is Register and Finished in kinds and {message.attempt for message in told} == {7}
