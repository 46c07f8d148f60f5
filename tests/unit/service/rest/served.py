"""A REST endpoint at a free port, with a job whose slots, storage and Spark are played by the test."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.unit.engine.jobmaster.played_job import Job, plan

from penstock.cep import CEP, Pattern, field
from penstock.common.configuration import Configuration
from penstock.common.errors import StateUnavailableError
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.execution_graph import ExecutionGraph
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.engine.rpc.messages import OperatorReport, TaskReport
from penstock.engine.runtime.task.events import SampledStack, StacksSampled
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.rest.endpoint import RestEndpoint
from penstock.service.rest.flame_graphs import FlameGraphs
from penstock.service.rest.meter import Meter
from penstock.service.rest.served_jobs import JobEntry


class PlayedJob:
    """What the endpoint needs of a job. `savepoints`, `rescales`: what it was asked for."""

    def __init__(self, graph: JobGraph | None = None, **more: Any) -> None:
        self.played = Job(graph=graph or plan(parallelism=2), **more)
        self.metrics = JobMetrics(self.played.graph)
        self.is_cancelled = False
        self.savepoints: list[tuple[str | None, bool, bool, Future[str]]] = []
        self.checkpoints: list[tuple[bool, Future[str]]] = []
        self.rescales: list[dict[int, int]] = []
        self.refusal: Exception | None = None
        """Why it can't be rescaled."""
        self.queries: list[StateQuery] = []
        self.live: LiveState | BaseException = StateUnavailableError("it does not run: try again")
        """What live queries are answered."""
        self.samplings: list[tuple[tuple[int, ...], Future[list[StacksSampled]]]] = []
        """What was asked for flame graphs, and the answers, which are the test's to give."""
        self.stops_answering = False
        """Whether workers do not say any more where their threads are."""

    @property
    def execution_graph(self) -> ExecutionGraph:
        return self.played.recorder.published

    def cancel(self) -> None:
        self.is_cancelled = True

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        outcome: Future[str] = Future()
        self.savepoints.append((directory, stop, drain, outcome))
        return outcome

    def checkpoint(self, full: bool = False) -> Future[str]:
        outcome: Future[str] = Future()
        self.checkpoints.append((full, outcome))
        return outcome

    def rescale(self, parallelism: Mapping[int, int]) -> Future[str]:
        outcome: Future[str] = Future()
        if self.refusal is not None:
            outcome.set_exception(self.refusal)
            return outcome
        self.rescales.append(dict(parallelism))
        return outcome

    def read_state(self, query: StateQuery) -> Future[LiveState]:
        self.queries.append(query)
        answer: Future[LiveState] = Future()
        if isinstance(self.live, LiveState):
            answer.set_result(self.live)
        else:
            answer.set_exception(self.live)
        return answer

    def sample_stacks(self, *question: int) -> Future[list[StacksSampled]]:
        self.samplings.append((question, Future()))
        return self.samplings[-1][1]

    def dump_threads(self, vertex: int, subtask: int, depth: int) -> Future[list[StacksSampled]]:
        answer: Future[list[StacksSampled]] = Future()
        if self.stops_answering:
            return answer
        stack = SampledStack(["run:1", "map:2"], False, 1, "MainThread")
        answer.set_result([StacksSampled(vertex, subtask, 1, [stack])])
        return answer


class Served:
    """The endpoint, and a client of it with the token."""

    def __init__(
        self,
        directory: Path,
        job: Any = None,
        settings: dict[str, str] | None = None,
        checkpoints: str = "/checkpoints",
        id: str = "id",
        **more: Any,
    ) -> None:
        # It takes no samples of its own: the test does.
        self.endpoint = RestEndpoint("0", {"XDG_CACHE_HOME": str(directory)}, sample_every_s=100_000, **more)
        self.job = job or PlayedJob()
        configuration = Configuration()
        for key, value in (settings or {}).items():
            configuration.set_string(key, value)
        self.logs = directory / "logs"
        self.logs.mkdir()
        meter, flame_graphs = Meter(self.job.metrics), FlameGraphs(configuration)
        self.entry = JobEntry(id, self.job, configuration, checkpoints, self.logs, meter, flame_graphs)
        self.endpoint.jobs.add(self.entry)
        self.host = self.endpoint.address.url.removeprefix("http://")

    def ask(
        self, path: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer. `headers`: in place of the one with the token."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            token = {"Authorization": f"Bearer {self.endpoint.token}"}
            connection.request(method, path, data, token if headers is None else headers)
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get(self, path: str, status: int = 200) -> Any:
        """The JSON of an answer, which has this status."""
        return self.send("GET", path, status=status)

    def send(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answered, _, text = self.ask(path, method, body)
        assert answered == status, text
        return json.loads(text)

    def vertex(self, index: int) -> str:
        """The path of a vertex."""
        return f"/jobs/id/vertices/{vertex_id(self.job.played.graph.vertices[index])}"


def pattern_plan() -> JobGraph:
    """A job that looks for a pattern."""
    plans = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=plans)
    environment.set_parallelism(1)
    events = environment.from_collection([{"kind": 1}]).key_by("kind")
    pattern: Pattern[Any, Any] = Pattern.begin("a").where(field("kind") == 1).followed_by("b").where(field("kind") < 0)
    CEP.pattern(events, pattern.within(5_000)).without_filter().select(len).print()
    environment.execute("job")
    return plans.graphs[0]


def serve_pages_job(directory: Path, name: str, failure: str, graph: JobGraph | None = None) -> Served:
    """A job that runs, has failed once and has taken three checkpoints, for pages: two vertices with a subtask each.

    100 records/s, a third of the time busy, a sixth back-pressured; the same each time they are read.
    """
    one = Served(directory, PlayedJob(graph or plan()))
    played = one.job.played
    played.graph.name = name
    played.runs().fails(RuntimeError(failure))
    played.restarts().runs()
    for _ in range(3):
        played.takes_checkpoint()
    played.waits(1_000)
    for seconds in (1, 3):
        one.job.metrics.update([report(v.id, 0, seconds, seconds * 100) for v in played.graph.vertices])
        one.entry.meter.sample(seconds)
    return one


def report(vertex: int, subtask: int, seconds: float, records: int, **more: Any) -> TaskReport:
    """After so many seconds, of which half were idle, a third busy and a sixth back-pressured."""
    ns = int(seconds * 1_000_000_000)
    operators = [
        OperatorReport("first", records, records, 0, 5_000, {"mine.seen": records}),
        OperatorReport("last", records, 2 * records, 3, 5_000, {}),
    ]
    return TaskReport(vertex, subtask, 10, 20, 1, 2, ns // 3, ns // 2, ns // 6, 0, 0, 0, operators, **more)
