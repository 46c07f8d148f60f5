"""Hosts a job master on Spark's driver: its thread, its port, and the threads that carry out its effects.

The control server's thread hands events to the job master and sends its messages; it never waits for Spark, for a
store or for a sink. Those have threads of their own (query_thread.py, storage_thread.py,
engine/jobmaster/results/lanes.py), whose outcomes come back as events.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from penstock.common.errors import JobError, PenstockError
from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.common.job_status import JobStatus
from penstock.common.job_threads import start_thread
from penstock.common.time.wall_clock import now_ms
from penstock.engine.checkpoint.effects import StorageEffect
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.checkpoint.storage_operations import CheckpointStorage
from penstock.engine.jobmaster.async_calls import make_call
from penstock.engine.jobmaster.effect_handler import EffectHandler
from penstock.engine.jobmaster.effects import (
    CallAsync,
    CloseResults,
    CountSlots,
    Deploy,
    Finish,
    JobEffect,
    Reply,
    RestartResults,
    SendToSlot,
    StacksReply,
    StateReply,
    StopAttempt,
)
from penstock.engine.jobmaster.events import (
    CancelRequested,
    HostFailed,
    JobEvent,
    Reported,
    RescaleRequested,
    SavepointRequested,
    SlotsCounted,
    Tick,
    UpdateRequested,
)
from penstock.engine.jobmaster.execution_graph import ExecutionGraph, JobFailure
from penstock.engine.jobmaster.execution_recorder import ExecutionRecorder
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.jobmaster.notices import Autoscaled, JobNotice
from penstock.engine.jobmaster.results.lanes import ResultLanes
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.new_program import unpack_program
from penstock.engine.plan.rescaling import wanted
from penstock.engine.rpc.messages import Command, FromSlot, Heartbeat, ReadCommand, ToJobMaster, ToTask
from penstock.engine.rpc.server import ControlServer
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import StacksSampled
from penstock.hosts.spark.driver.commands import answer_command
from penstock.hosts.spark.driver.job_log_lines import JobLogLines
from penstock.hosts.spark.driver.open_requests import OpenReads, OpenRequests, OpenSamplings, complete
from penstock.hosts.spark.driver.pipelined_query import QueryThread, Start
from penstock.hosts.spark.driver.storage_thread import StorageThread
from penstock.hosts.spark.payload import this_python
from penstock.hosts.traces.reporter import TraceReporter
from penstock.hosts.traces.spans import JobSpans

_RESULT_THREADS_MAX = 4

_log = logging.getLogger(__name__)

NewSavepoint = Callable[[str | None], str]
"""A new directory for a savepoint, below the given one or the configured one. Raises PenstockError if there is none."""


class JobMasterHost(EffectHandler):
    """One job on Spark. `over` is set when it has ended and everything of it is released."""

    def __init__(
        self,
        master: JobMaster,
        server: ControlServer,
        sinks: Mapping[int, ResultSink],
        storage: CheckpointStorage,
        start_queries: Start,
        new_savepoint: NewSavepoint,
        slots: Callable[[], int],
        show_spark_stack: bool = False,
        log: logging.Logger = _log,
        traces: TraceReporter | None = None,
        worker_logged: Callable[[int, int, str], None] = lambda level, index, lines: None,
    ) -> None:
        self.metrics = JobMetrics(master.graph)
        self.over = threading.Event()
        self.on_end: Callable[[], None] = lambda: None
        """Called by the control thread when the job has ended."""
        self.on_plan: Callable[[JobGraph], object] = lambda graph: None
        """Called by the storage's thread when the job has other functions: they are to be kept for the next run."""
        self.after_storage: Callable[[], None] = lambda: None
        """Called by the storage's thread when it has done everything: the last step of the job."""
        self.on_deleted: Callable[[], None] = lambda: None
        """Called by the storage's thread when no checkpoint of the job is left. It may raise."""
        self._master = master
        self._recorder = ExecutionRecorder(master)
        self._server = server
        self._new_savepoint = new_savepoint
        self._slots = slots
        """How many there are for the job, those that it holds included."""
        self._storage = StorageThread(storage, self.post, self._thread_failed, lambda: self.on_deleted())
        self._queries = QueryThread(start_queries, self.post, self._thread_failed, show_spark_stack)
        pool = ThreadPoolExecutor(_RESULT_THREADS_MAX, thread_name_prefix="penstock-results")
        self._lanes = ResultLanes(sinks, self.post, pool)
        self._identities: dict[tuple[int, SlotId], bytes] = {}
        self._unsent: dict[tuple[int, SlotId], list[ToTask]] = {}
        """Messages for slots that have not registered yet."""
        self._requests = OpenRequests(self._storage.call, self.post)
        self._reads = OpenReads()
        self._samplings = OpenSamplings(self.post)
        self._fault: BaseException | None = None
        self._traces = traces
        self._worker_logged = worker_logged
        self._spans: JobSpans | None = None
        if traces is not None:
            self._spans = JobSpans(master.job_id, master.graph.name, traces.report, now_ms())
        self._events = JobLogLines(log, master.name, master.coordinator.history, self._spans)

    # Any thread.

    def record(self) -> None:
        """Record how the job goes, for readers of `execution_graph`. Called before `start`, by who serves the job."""
        self._recorder.is_served = True

    def start(self) -> None:
        """Begin the job. Raises SourceError or CheckpointError if it can't begin; `over` is set at its end."""
        try:
            effects = self._master.start()
        except BaseException:
            self._events.followed(self._master.abandon())
            self._finish(Finish(JobStatus.FAILED, None))
            raise
        self._recorder.followed(Tick(), effects, now_ms())
        self._server.start(self._on_message, lambda: self._handle(Tick()), self._end_here)
        # On the server's thread, the only one that may send.
        self._server.call_soon(lambda: self._carry_out(effects))

    def post(self, event: JobEvent) -> bool:
        """Hand an event to the job master. False: the job has ended."""
        return self._server.call_soon(lambda: self._handle(event))

    @property
    def status(self) -> JobStatus:
        """Where the job is. Terminal when everything of it is released."""
        status = self._master.status if self._fault is None else JobStatus.FAILED
        return status if not status.is_terminal_state() or self.over.is_set() else JobStatus.RUNNING

    @property
    def error(self) -> BaseException | None:
        """Why the job ended, if it did not succeed."""
        return self._fault or self._master.error

    @property
    def restarts(self) -> int:
        """How often the job was started again."""
        return self._master.restarts

    @property
    def execution_graph(self) -> ExecutionGraph:
        """The job as it was a moment ago. `record` has been called."""
        return self._recorder.published

    @property
    def failures(self) -> Sequence[JobFailure]:
        """The newest, oldest first."""
        return self._recorder.failures.newest

    @property
    def autoscaled(self) -> Autoscaled | None:
        """The newest decision of the autoscaler."""
        return self._master.autoscaled

    def checkpoint_reports(self) -> list[CheckpointReport]:
        """The newest checkpoints that completed or failed, oldest first."""
        return list(self._master.coordinator.history)

    def cancel(self) -> None:
        """Ask all tasks to stop; those that do not in time are killed with their workers."""
        self.post(CancelRequested())

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Take a savepoint below a directory, or below the configured one. The future is given its path.

        `stop`: the job stops with it; `drain`: event time goes to its end first.
        """

        def event(number: int) -> JobEvent:
            options = CheckpointOptions(savepoint=self._new_savepoint(directory), stop=stop, drain=drain)
            return SavepointRequested(number, options)

        return self._requests.request(event)

    def checkpoint(self, full: bool = False) -> Future[str]:
        """Take a checkpoint now, beside those of the interval; `full`: of all state. The future is given its number."""
        return self._requests.request(lambda number: SavepointRequested(number, CheckpointOptions(full=full)))

    def rescale(self, parallelism: Mapping[int, int]) -> Future[str]:
        """Run on with other numbers of subtasks, by vertex. The future completes when all of them run."""

        def event(number: int) -> JobEvent:
            free = max(0, self._slots() - self._master.graph.slots)
            return RescaleRequested(number, dict(parallelism), free)

        return self._requests.request(event)

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        """The same of the whole job, as if it had been submitted with it, and of operators by name or uid."""
        try:
            return self.rescale(wanted(self._master.graph, parallelism, operators))
        except JobError as error:
            answer: Future[str] = Future()
            complete(answer, error=error)
            return answer

    def read_state(self, query: StateQuery) -> Future[LiveState]:
        """Ask the tasks for keyed state as they have it now."""
        return self._reads.ask(query, self.post)

    def sample_stacks(self, vertex: int, samples: int, delay_ms: int, depth: int) -> Future[list[StacksSampled]]:
        """Ask the slots where the threads of a vertex's tasks are."""
        return self._samplings.ask(vertex, samples, delay_ms, depth)

    def dump_threads(self, vertex: int, subtask: int, depth: int) -> Future[list[StacksSampled]]:
        """Ask the slot of a task where all threads of its process are."""
        return self._samplings.ask(vertex, 1, 0, depth, subtask)

    def update(self, program: bytes, allow_non_restored: bool = False) -> Future[str]:
        """Go on with the functions of a packed program, even of one that leaves state over if that is allowed."""
        script = vars(sys.modules["__main__"])
        added: dict[str, type] = {}
        kept: Future[str] = Future()

        def event(number: int) -> JobEvent:
            new = unpack_program(program, this_python())
            # Also for tasks that are deployed later: they are sent the classes of the script.
            added.update(new.classes)
            script.update(added)
            return UpdateRequested(number, new.graph, program_pickler.dumps(new.classes), allow_non_restored)

        def keep(done: Future[str]) -> None:
            if (error := done.exception()) is not None:
                # The mended program may have others of these names: nothing is of these.
                for name in added:
                    del script[name]
                complete(kept, error=error)
                return

            def keep() -> None:
                try:
                    self.on_plan(self._master.graph)
                except RAISED as failed:
                    complete(kept, error=JobError(f"{done.result()}. But it would restart with those before: {failed}"))
                else:
                    complete(kept, done.result())

            if not self._storage.call(keep):
                complete(kept, done.result())

        self._requests.request(event).add_done_callback(keep)
        return kept

    # The control server's thread.

    def _on_message(self, identity: bytes, message: ToJobMaster) -> None:
        if isinstance(message, Command):
            answer_command(self, message, lambda answer: self._server.send(identity, answer), self._server.call)
        elif isinstance(message, ReadCommand):
            self._reads.command(
                message, lambda answer: self._server.call(lambda: self._server.send(identity, answer)), self._handle
            )
        else:
            self._on_report(identity, message)

    def _on_report(self, identity: bytes, message: FromSlot) -> None:
        # Also that of an attempt that is over: why it is, may be there.
        if isinstance(message.report, Heartbeat) and message.report.log:
            self._worker_logged(message.level, message.index, message.report.log)
        key = (message.attempt, SlotId(message.level, message.index))
        if self._master.is_present(message.level, message.attempt):
            if isinstance(message.report, Heartbeat):
                self.metrics.update(message.report.reports, message.attempt)
            # A slot is known by its first message. After a reconnect it has another identity: see connections.py.
            if self._identities.get(key) != identity:
                self._identities[key] = identity
                for waiting in self._unsent.pop(key, []):
                    self._server.send(identity, waiting)
        self._handle(Reported(message, identity))

    def _handle(self, event: JobEvent) -> None:
        self._events.happened(event)
        try:
            self._carry_out(self._handled(event))
        except RAISED as error:
            self._fail(error)

    def _handled(self, event: JobEvent) -> list[JobEffect]:
        at_ms = now_ms()
        effects = self._master.handle(event, at_ms)
        self._recorder.followed(event, effects, at_ms)
        if self._spans is not None:
            master = self._master
            restored_id = max(region.attempt.restored_id for region in master.regions)
            self._spans.status(master.status, master.restarts, restored_id, at_ms)
        return effects

    def _fail(self, error: BaseException) -> None:
        """A fault of our own fails all regions. If the job master can't handle that either, the job ends here."""
        fault = _with_journal(error, self._master)
        try:
            effects = self._handled(HostFailed(fault))
        except RAISED:
            _log.exception("the job master can't go on")
            self._end_here(fault)
        else:
            self._carry_out(effects)

    def _end_here(self, error: BaseException) -> None:
        """End the job without its master."""
        self._fault = as_exception(error)
        self._recorder.broke(self._fault, now_ms())
        stops = [StopAttempt(region.attempt.id) for region in self._master.regions]
        self._carry_out([*stops, CloseResults(self._fault), Finish(JobStatus.FAILED, self._fault)])

    def _thread_failed(self, error: BaseException) -> None:
        """Another thread's: it could not do what the job master waits for."""
        self._server.call_soon(lambda: self._fail(error))

    def _carry_out(self, effects: list[JobEffect]) -> None:
        self._events.followed(effects)
        first_error: BaseException | None = None
        for effect in effects:
            try:
                self.carry_out_one(effect)
            except RAISED as error:
                # The others are executed nevertheless: the job master waits for the answers to them.
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def _store(self, effect: StorageEffect) -> None:
        self._storage.carry_out(effect)

    def _note(self, notice: JobNotice) -> None:
        """Notices go to the log and to listeners, with all that happens."""

    def _stop_attempt(self, effect: StopAttempt) -> None:
        self._queries.put(effect)

    def _reply(self, reply: Reply) -> None:
        self._requests.answer(reply)

    def _reply_state(self, effect: StateReply) -> None:
        self._reads.answer(effect)

    def _reply_stacks(self, effect: StacksReply) -> None:
        self._samplings.answer(effect)

    def _deploy(self, effect: Deploy) -> None:
        self.metrics.deployed(effect.graph)
        self._queries.put(effect)

    def _call(self, effect: CallAsync) -> None:
        # A daemon thread for each: a listing that hangs forever holds up neither another one nor the program's end.
        start_thread("penstock-enumerator", lambda: self.post(make_call(effect)), self._thread_failed)

    def _count_slots(self, effect: CountSlots) -> None:
        """On the storage's thread, as for a request: Spark's JVM may take its time."""

        def count() -> None:
            try:
                self.post(SlotsCounted(self._slots()))
            except RAISED as error:
                self.post(SlotsCounted(error=f"Spark does not say how many slots it has: {error}"))

        self._storage.call(count)

    def _send(self, effect: SendToSlot) -> None:
        key = (effect.message.attempt, effect.slot)
        identity = self._identities.get(key)
        if identity is None:
            self._unsent.setdefault(key, []).append(effect.message)
        else:
            self._server.send(identity, effect.message)

    def _restart_results(self, effect: RestartResults) -> None:
        # No slot of the attempt before will read what waits for it. Those of other regions still do.
        for waiting in (self._identities, self._unsent):
            for key in [key for key in waiting if not self._master.is_present(key[1].level, key[0])]:
                del waiting[key]
        super()._restart_results(effect)

    def _finish(self, effect: Finish) -> None:
        self.on_end()
        if self._spans is not None:
            self._spans.ended(effect.error, now_ms())
        # From here on a request is refused by the thread that makes it: see `post`.
        self._server.stop()
        self._queries.end()

        def released() -> None:
            try:
                # Requests are made on this thread, and no further one comes.
                self._requests.end()
                self._reads.end()
                self._samplings.end()
                self.after_storage()
                if self._traces is not None:
                    self._traces.close()
            finally:
                # How the job has ended is decided, and its program waits for it.
                self.over.set()

        self._storage.end(released)


def _with_journal(error: BaseException, master: JobMaster) -> Exception:
    if isinstance(error, PenstockError):
        return error
    failure = JobError(f"{type(error).__name__}: {error}\nThe job master's last events:\n{master.journal}")
    failure.__cause__ = error
    return failure
