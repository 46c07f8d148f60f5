"""What the user reads about a job while it runs."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from penstock.common.configuration import Configuration
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import JobCancelledError
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.text.quantities import as_duration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.collected import CloseableIterator
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.jobmaster.results.result_sinks import CollectedResults
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import OperatorReport, TaskReport
from penstock.service.cli.watched_executor import WatchedExecutor
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.job_progress import ProgressMeter
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.client.rest_client import UnreachableError
from penstock.service.cluster.rest_address import RestAddress


def program(executor: PipelineExecutor) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment(executor=executor)
    env.from_collection([1, 2]).map(str).print()
    return env


def graph() -> JobGraph:
    planned = PlanExecutor()
    program(planned).execute("numbers")
    return planned.graphs[0]


class Refusing(PipelineExecutor):
    def execute(self, submission: Submission) -> JobClient:
        raise RuntimeError("no Spark")


class Run:
    """A job that has done what is set here."""

    def __init__(self, graph: JobGraph) -> None:
        self.metrics = JobMetrics(graph)
        self.checkpoints: list[Any] = []
        self.restarts = 0
        self.status = JobStatus.RUNNING

    def counts(self, read: int, watermark: int = MIN_TIMESTAMP) -> None:
        operators = [OperatorReport(name, read, read, 0, watermark, {}) for name in ("source", "map", "print")]
        self.metrics.update([TaskReport(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, operators)])

    def cancel(self) -> None:
        self.status = JobStatus.CANCELED

    def savepoint(self, directory: str | None) -> Future[str]:
        raise NotImplementedError

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        raise NotImplementedError

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        raise NotImplementedError

    def wait(self) -> BaseException | None:
        return None


def test_a_job_has_a_line_when_it_starts_and_one_when_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """The user would look at an empty screen, and not know the id by which the job is controlled."""
    with WatchedExecutor("job.py", executor=PlanExecutor()) as executor:
        program(executor).execute("numbers")
        first, last = capsys.readouterr().err.splitlines()

    assert re.fullmatch(r"job [0-9a-f]{32} 'numbers' starts: STREAMING, 1 slot", first)
    assert re.fullmatch(rf"job {first[4:12]} 'numbers' finished after 0\.\d s: 0 records in, 0 out", last)
    assert executor.jobs == 1
    assert capsys.readouterr().err == "", "nothing more when the program ends"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Starting(PipelineExecutor):
    """One whose start goes on until the live line has said something."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def execute(self, submission: Submission) -> JobClient:
        end_s = time.monotonic() + 30
        while "ing 0." not in self.terminal.getvalue() and time.monotonic() < end_s:
            time.sleep(0.01)
        raise KeyboardInterrupt


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_start_that_is_interrupted_says_so(monkeypatch: pytest.MonkeyPatch, is_interrupted: bool) -> None:
    """Ctrl-C waits for the end of Spark's start; the line would go on to say that the job starts."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    watched = WatchedExecutor("job.py", executor=Starting(terminal), is_interrupted=lambda: is_interrupted)
    with pytest.raises(KeyboardInterrupt), watched as executor:
        program(executor).execute("numbers")
    assert ("canceling" in terminal.getvalue()) == is_interrupted != ("starting" in terminal.getvalue())


@pytest.mark.parametrize("as_json", [False, True])
def test_a_reader_that_is_gone_ends_no_job(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    """`penstock run job.py 2>&1 | head -1` would not start its job."""
    reader, writer = os.pipe()
    os.close(reader)
    gone = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stderr", gone)
    with WatchedExecutor("job.py", as_json=as_json, executor=PlanExecutor()) as executor:
        program(executor).execute("numbers")
    assert executor.jobs == 1
    with pytest.raises(BrokenPipeError):
        gone.close()


def test_a_name_is_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a line break or a colour of the terminal would look like something that penstock says."""
    with WatchedExecutor("job.py", executor=PlanExecutor()) as executor:
        program(executor).execute("two\nlines\x1b[31m")
    first, last = capsys.readouterr().err.splitlines()
    assert "'two lines [31m' starts" in first and "'two lines [31m' finished" in last


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts that read standard error would have to filter it."""
    with WatchedExecutor("job.py", quiet=True, executor=PlanExecutor()) as executor:
        program(executor).execute("numbers")
    assert capsys.readouterr() == ("", "")


def test_json_is_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    """A scheduler would have to parse sentences."""
    with WatchedExecutor("job.py", as_json=True, executor=PlanExecutor()) as executor:
        program(executor).execute("numbers")
    started, ended = map(json.loads, capsys.readouterr().err.splitlines())
    assert (started["event"], started["name"], started["mode"], started["slots"]) == (
        "starting",
        "numbers",
        "STREAMING",
        1,
    )
    assert (ended["event"], ended["status"], ended["job_id"]) == ("ended", "FINISHED", started["job_id"])


class Serving(PipelineExecutor):
    """One that serves jobs over REST if it is told where."""

    def execute(self, submission: Submission) -> JobClient:
        if submission.rest_ports is not None:
            token = Path.home() / "rest" / f"{submission.rest_ports}.token"
            submission.on_rest(RestAddress(f"http://127.0.0.1:{submission.rest_ports}", str(token)))
        return PlanExecutor().execute(submission)


def test_where_a_program_is_served_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody would know the port, nor the token without which nothing is told."""
    for ports, said in (("8081", ["REST: http://127.0.0.1:8081, token in ~/rest/8081.token"]), (None, [])):
        with WatchedExecutor("job.py", executor=Serving(), rest_ports=ports) as executor:
            program(executor).execute("numbers")
            program(executor).execute("numbers")
        assert [line for line in capsys.readouterr().err.splitlines() if "REST" in line] == said


def test_a_job_that_does_not_start_is_not_told_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    """The line would contradict the error."""
    with pytest.raises(RuntimeError), WatchedExecutor("job.py", executor=Refusing()) as executor:
        program(executor).execute("numbers")
    assert capsys.readouterr().err == ""


class Going(PipelineExecutor):
    """Its jobs go on until the test has ended."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def execute(self, submission: Submission) -> JobClient:
        run = Run(submission.graph)
        run.wait = lambda: None if self.ended.wait(60) else TimeoutError()  # type: ignore[method-assign]
        job_id = JobID.generate()
        submission.on_start(job_id)
        return JobClient(job_id, run)


@pytest.mark.parametrize(("target", "does"), [("local", "without waiting for it"), ("remote", " --output")])
def test_what_becomes_of_a_job_that_the_program_has_not_waited_for(
    target: str, does: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user would start a job again that runs in his cluster, or wait for one that has ended with his program."""
    going = Going()
    with WatchedExecutor("job.py", executor=going) as executor:
        env = StreamExecutionEnvironment(Configuration.from_dict({"execution.target": target}), executor=executor)
        env.from_collection([1]).print()
        env.execute_async("numbers")
    going.ended.set()
    assert does in capsys.readouterr().err.splitlines()[-1]


def test_a_program_that_fails_is_not_said_to_have_forgotten_its_job(capsys: pytest.CaptureFixture[str]) -> None:
    """The rows of a query raise its error before the job has ended: the line would blame the program."""
    going = Going()
    with pytest.raises(ValueError, match="of a row"), WatchedExecutor("job.py", executor=going) as executor:
        env = StreamExecutionEnvironment(executor=executor)
        env.from_collection([1]).print()
        env.execute_async("numbers")
        raise ValueError("of a row")
    going.ended.set()
    assert capsys.readouterr().err.splitlines()[-1].endswith("ends, because the program has failed")


def test_without_a_terminal_progress_is_in_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log would be silent until Spark has started, as if nothing happened; or have two lines a second."""
    clock = [100.0]
    monkeypatch.setattr("penstock.service.cli.watched_executor.time.monotonic", lambda: clock[0])
    going, said = Going(), ""

    def until(words: str) -> None:
        nonlocal said
        for _ in range(3_000):
            said += capsys.readouterr().err
            if words in said:
                return
            threading.Event().wait(0.01)
        raise AssertionError(said)

    with WatchedExecutor("planning", executor=going, in_lines=True, look_s=0.001) as executor:
        for seconds in (1, 2, 3, 4):
            clock[0] = 100.0 + seconds
            threading.Event().wait(0.02)
        until("planning 4.0 s")
        program(executor).execute_async("numbers")
        clock[0] = 109.0
        until("'numbers' running 5.0 s · in 0")
        going.ended.set()
        until("'numbers' running after 5.0 s")
    assert [line for line in said.splitlines() if "planning" in line] == ["planning 2.0 s", "planning 4.0 s"]


def test_the_first_job_has_the_id_that_was_chosen_for_it() -> None:
    """Spark's log would be in the folder of a job that does not exist."""

    ids: list[str] = []

    class Noting(PlanExecutor):
        def execute(self, submission: Submission) -> JobClient:
            ids.append(submission.job_id)
            return super().execute(submission)

    with WatchedExecutor("job.py", quiet=True, executor=Noting(), first_job_id="a" * 32) as executor:
        program(executor).execute("first")
        program(executor).execute("second")
    assert ids == ["a" * 32, ""]


class Queued(Going):
    """Its jobs are left waiting in a cluster."""

    def execute(self, submission: Submission) -> JobClient:
        assert submission.on_waiting is not None
        submission.on_waiting(JobID("5d5c8fcf5f3e40058f7571946b5785ce"), "waits for 2 slots: 0 of 8 are free")
        return JobClient(JobID("5d5c8fcf5f3e40058f7571946b5785ce"), Run(submission.graph))


def test_a_job_that_waits_is_not_said_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    """A user would look for its results."""
    with WatchedExecutor("job.py", executor=Queued()) as executor:
        configuration = {"execution.target": "remote", "execution.attached": "false"}
        env = StreamExecutionEnvironment(Configuration.from_dict(configuration), executor=executor)
        env.from_collection([1]).print()
        env.execute_async("numbers")
    said = capsys.readouterr().err
    assert "job 5d5c8fcf5f3e40058f7571946b5785ce 'numbers' waits for 2 slots: 0 of 8 are free\n" in said
    assert "job 5d5c8fcf 'numbers' keeps running in its cluster" in said
    assert "starts" not in said


class OutOfReach(Run):
    """A job whose cluster does not answer for a while."""

    def __init__(self, graph: JobGraph) -> None:
        super().__init__(graph)
        self.is_unavailable = self.is_asked = False

    @property
    def status(self) -> JobStatus:
        self.is_asked = True
        if self.is_unavailable:
            raise UnreachableError("nothing answers")
        return JobStatus.RUNNING

    @status.setter
    def status(self, status: JobStatus) -> None:
        pass


class InACluster(Going):
    """Its jobs are those of a cluster."""

    def execute(self, submission: Submission) -> JobClient:
        self.run = OutOfReach(submission.graph)
        self.run.wait = lambda: None if self.ended.wait(60) else TimeoutError()  # type: ignore[method-assign]
        job_id = JobID.generate()
        submission.on_start(job_id)
        return JobClient(job_id, self.run)


def test_a_cluster_that_does_not_answer_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A user would see nothing for half a minute, and then the traceback of a thread."""
    going, said = InACluster(), ""
    with WatchedExecutor("job.py", executor=going) as executor:
        program(executor).execute_async("numbers")
        for is_unavailable, words in ((True, "its cluster does not answer"), (False, "its cluster answers again")):
            going.run.is_unavailable = is_unavailable
            until_s = time.monotonic() + 30
            while words not in said and time.monotonic() < until_s:
                time.sleep(0.05)
                said += capsys.readouterr().err
            assert said.count(words) == 1
        going.run.is_unavailable = True
        going.ended.set()
    assert "Traceback" not in said + capsys.readouterr().err


def test_figures_of_a_running_job() -> None:
    """The live line would show another job than the one that runs."""
    planned = graph()
    job = Run(planned)
    client = JobClient(JobID.generate(), job)
    meter = ProgressMeter(planned, time.monotonic(), "a" * 32)
    nothing = meter.measure(client)
    assert (nothing.records_in, nothing.records_out, nothing.event_time_lag_ms) == (0, 0, None)

    now_ms = time.time_ns() // 1_000_000
    job.counts(3_000, watermark=now_ms - 90_000)
    job.restarts = 1
    job.checkpoints = [
        CheckpointReport(4, now_ms - 10_500, 500, 1, 1),
        CheckpointReport(5, now_ms - 5_000, 500, 0, 1, failure="timeout"),
    ]
    measured = meter.measure(client)
    assert (measured.records_in, measured.records_out) == (3_000, 3_000)
    assert measured.records_in_per_s == measured.records_out_per_s > 0
    line = measured.as_line()
    assert line.startswith("aaaaaaaa 'numbers' running 0.")
    assert " · in 3,000 (" in line and "· out 3,000 (" in line
    assert "event time 1 min 30 s behind · checkpoint 4 10." in line
    assert line.endswith(" s ago · 1 restart")

    job.counts(10)
    assert meter.measure(client).records_in_per_s == 0, "a restart counts anew"


def test_what_a_job_has_put_out_is_not_what_it_has_committed() -> None:
    """After a Ctrl-C the files hold fewer records than the last line names: some would seem to be lost."""
    planned = graph()
    job = Run(planned)
    job.counts(1_553)
    job.checkpoints = [CheckpointReport(7, time.time_ns() // 1_000_000 - 900, 500, 1, 1)]
    meter = ProgressMeter(planned, time.monotonic(), "a" * 32)
    client = JobClient(JobID.generate(), job)
    ends = {}
    for job.status in (JobStatus.CANCELED, JobStatus.FAILED, JobStatus.FINISHED):
        ends[job.status] = meter.measure(client).as_end().partition(": ")[2]
    assert ends[JobStatus.CANCELED] == ends[JobStatus.FAILED]
    assert ends[JobStatus.FAILED] == "1,553 records in, 1,553 out, committed up to checkpoint 7"
    assert ends[JobStatus.FINISHED] == "1,553 records in, 1,553 out", "all is committed"


def test_what_is_counted_since_a_restart_is_said_to_be() -> None:
    """A job of 10,000 records would be said to have had 5,951."""
    planned = graph()
    job = Run(planned)
    job.counts(5_951)
    job.status = JobStatus.FINISHED
    meter = ProgressMeter(planned, time.monotonic(), "a" * 32)
    ends = []
    changes = ((1, 0, 0), (3, 0, 0), (0, 2, 0), (1, 1, 0), (9, 0, 1), (0, 1, 1))
    for job.restarts, job.metrics.rescales, job.metrics.updates in changes:
        ends.append(meter.measure(JobClient(JobID.generate(), job)).as_end().partition(": ")[2])
    assert ends == [
        "5,951 records in, 5,951 out since its restart",
        "5,951 records in, 5,951 out since the last of 3 restarts",
        "5,951 records in, 5,951 out since it was rescaled",
        "5,951 records in, 5,951 out since it was rescaled, or its restart",
        "5,951 records in, 5,951 out since it was updated, or the last of 9 restarts",
        "5,951 records in, 5,951 out since it was rescaled or updated",
    ]


def test_a_job_whose_results_are_enough_is_not_said_to_be_cancelled() -> None:
    """Who asks for three values would be told of a job that somebody has cancelled."""
    planned = graph()
    job = Run(planned)
    client = JobClient(JobID.generate(), job)
    meter = ProgressMeter(planned, time.monotonic(), "a" * 32)
    CloseableIterator(CollectedResults(), client).close()
    enough = r"job a{8} 'numbers' ended after .*, when its program had enough results: 0 records in, 0 out"
    assert re.fullmatch(enough, meter.measure(client).as_end())
    by_somebody = JobClient(JobID.generate(), job)
    assert re.fullmatch(
        r"job a{8} 'numbers' canceled after .*: 0 records in, 0 out", meter.measure(by_somebody).as_end()
    )


class Interrupted(Run):
    """A job that the user's Ctrl-C finds running, and that has something to say as it ends."""

    def wait(self) -> BaseException | None:
        if self.status is JobStatus.RUNNING:
            raise KeyboardInterrupt
        error = JobCancelledError("the job was cancelled")
        error.add_note("Its checkpoints are deleted.")
        return error


class Interrupting(PipelineExecutor):
    def execute(self, submission: Submission) -> JobClient:
        return JobClient(JobID.generate(), Interrupted(submission.graph))


def test_what_an_interrupted_job_has_to_say_is_said() -> None:
    """Nobody is given its error: that its checkpoints are deleted would go unsaid."""
    with pytest.raises(KeyboardInterrupt) as interrupt:
        program(Interrupting()).execute("numbers")
    assert interrupt.value.__notes__ == ["Its checkpoints are deleted."]


def test_the_end_is_told_before_anybody_knows_it() -> None:
    """The last line about a job would come among the lines that the program prints after it."""
    told: list[str] = []
    client = JobClient(JobID.generate(), Run(graph()))
    client.when_ended(lambda: time.sleep(0.05) or told.append("end"))
    client.get_job_execution_result().result()
    assert told == ["end"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0.0 s"), (59_940, "59.9 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min"), (-1500, "-1.5 s")],
)
def test_lengths_of_time(ms: int, text: str) -> None:
    """A lag of hours would be a number of milliseconds."""
    assert as_duration(ms) == text
