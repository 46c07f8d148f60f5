"""Hosts a JobMaster in Spark's driver: its thread, its port, and the threads that carry out its effects.

The control server's thread passes events to the JobMaster and sends its messages. It never waits for Spark, a store or
a sink: these have their own threads (pipelined_query.py, storage_thread.py, engine/jobmaster/results/lanes.py), whose
outcomes come back as events.
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
from penstock.engine.checkpoint.storage_requests import CheckpointStorage
from penstock.engine.jobmaster.effect_handler import EffectHandler, make_call
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
from penstock.engine.plan.rescaling import requested_parallelism
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
"""Returns a new directory for a savepoint, below the given directory, or below the configured one if that is None.

Raises PenstockError if there is neither."""


class JobMasterHost(EffectHandler):
    """Host the JobMaster of a job on Spark. `ended` is set when the job has ended and has released all its resources.

    `count_slots`: returns how many slots the job can have, including those that it holds. `on_worker_lines`: receives
    log lines of workers on other machines, with the level and the index of the slot.
    """

    def __init__(
        self,
        master: JobMaster,
        server: ControlServer,
        *,
        sinks: Mapping[int, ResultSink],
        storage: CheckpointStorage,
        start_queries: Start,
        new_savepoint: NewSavepoint,
        count_slots: Callable[[], int],
        show_spark_stack: bool = False,
        log: logging.Logger = _log,
        traces: TraceReporter | None = None,
        on_worker_lines: Callable[[int, int, str], None] = lambda level, index, lines: None,
    ) -> None:
        self.metrics = JobMetrics(master.graph)
        self.ended = threading.Event()
        self.on_end: Callable[[], None] = lambda: None
        """Called by the control thread when the job has ended."""
        self.on_plan: Callable[[JobGraph], object] = lambda graph: None
        """Called by the storage thread after an update of the job's functions, to record them for the next run."""
        self.after_storage: Callable[[], None] = lambda: None
        """Called by the storage thread after all operations: the last step of the job."""
        self.on_deleted: Callable[[], None] = lambda: None
        """Called by the storage thread after all checkpoints of the job are deleted. May raise."""
        self._master = master
        self._recorder = ExecutionRecorder(master)
        self._server = server
        self._new_savepoint = new_savepoint
        self._available_slots = count_slots
        self._storage = StorageThread(storage, self.post, self._thread_failed, lambda: self.on_deleted())
        self._queries = QueryThread(start_queries, self.post, self._thread_failed, show_spark_stack)
        pool = ThreadPoolExecutor(_RESULT_THREADS_MAX, thread_name_prefix="penstock-results")
        self.lanes = ResultLanes(sinks, self.post, pool)
        self._identities: dict[tuple[int, SlotId], bytes] = {}
        self._unsent: dict[tuple[int, SlotId], list[ToTask]] = {}
        """Messages for slots that have not registered yet."""
        self._requests = OpenRequests(self._storage.call, self.post)
        self._reads = OpenReads()
        self._samplings = OpenSamplings(self.post)
        self._fault: BaseException | None = None
        self._traces = traces
        self._on_worker_lines = on_worker_lines
        self._spans: JobSpans | None = None
        if traces is not None:
            self._spans = JobSpans(master.job_id, master.graph.name, traces.report, now_ms())
        self._log_lines = JobLogLines(log, master.name, master.coordinator.history, self._spans)

    # Any thread.

    def record(self) -> None:
        """Record the progress of the job for readers of `execution_graph`. Call it before `start`."""
        self._recorder.is_served = True

    def start(self) -> None:
        """Start the job. Raises SourceError or CheckpointError if that fails, and sets `ended`."""
        try:
            effects = self._master.start()
        except BaseException:
            self._log_lines.log_effects(self._master.abandon())
            self.finish(Finish(JobStatus.FAILED, None))
            raise
        self._recorder.record(Tick(), effects, now_ms())
        self._server.start(self._on_message, lambda: self._handle(Tick()), self._end_here)
        # Only the server's thread may send.
        self._server.call_soon(lambda: self._carry_out(effects))

    def post(self, event: JobEvent) -> bool:
        """Post an event to the JobMaster. Returns False after the job has ended."""
        return self._server.call_soon(lambda: self._handle(event))

    @property
    def status(self) -> JobStatus:
        """Return the status of the job. It is terminal only when all resources of the job are released."""
        status = self._master.status if self._fault is None else JobStatus.FAILED
        return status if not status.is_terminal_state() or self.ended.is_set() else JobStatus.RUNNING

    @property
    def error(self) -> BaseException | None:
        """Return the error with which the job has ended, or None."""
        return self._fault or self._master.error

    @property
    def restarts(self) -> int:
        """Return the number of restarts."""
        return self._master.restarts

    @property
    def execution_graph(self) -> ExecutionGraph:
        """Return a recent state of the job. `record` must have been called."""
        return self._recorder.published

    @property
    def failures(self) -> Sequence[JobFailure]:
        """Return the newest failures, oldest first."""
        return self._recorder.failures.newest

    @property
    def autoscaled(self) -> Autoscaled | None:
        """Return the newest decision of the autoscaler."""
        return self._master.autoscaled

    def checkpoint_reports(self) -> list[CheckpointReport]:
        """Return the newest completed or failed checkpoints, oldest first."""
        return list(self._master.coordinator.history)

    def cancel(self) -> None:
        """Cancel the job. Workers with tasks that do not stop in time are killed."""
        self.post(CancelRequested())

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Take a savepoint below `directory`, or below the configured directory. The future gets its path.

        `stop`: stop the job with the savepoint; `drain`: advance event time to its end first.
        """

        def event(number: int) -> JobEvent:
            options = CheckpointOptions(savepoint=self._new_savepoint(directory), stop=stop, drain=drain)
            return SavepointRequested(number, options)

        return self._requests.request(event)

    def checkpoint(self, full: bool = False) -> Future[str]:
        """Take a checkpoint now, in addition to periodic ones. `full`: of all state. The future gets its number."""
        return self._requests.request(lambda number: SavepointRequested(number, CheckpointOptions(full=full)))

    def rescale(self, parallelism: Mapping[int, int]) -> Future[str]:
        """Change the parallelism of vertices. The future completes when all subtasks run."""

        def event(number: int) -> JobEvent:
            free = max(0, self._available_slots() - self._master.graph.slots)
            return RescaleRequested(number, dict(parallelism), free)

        return self._requests.request(event)

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        """Change the parallelism of the whole job, as if it were submitted with it, and of operators by name or uid."""
        try:
            return self.rescale(requested_parallelism(self._master.graph, parallelism, operators))
        except JobError as error:
            answer: Future[str] = Future()
            complete(answer, error=error)
            return answer

    def read_state(self, query: StateQuery) -> Future[LiveState]:
        """Read the current keyed state of the tasks."""
        return self._reads.query(query, self.post)

    def sample_stacks(self, vertex: int, samples: int, delay_ms: int, depth: int) -> Future[list[StacksSampled]]:
        """Sample the stacks of the threads that run the tasks of a vertex."""
        return self._samplings.request(vertex, samples=samples, delay_ms=delay_ms, depth=depth)

    def dump_threads(self, vertex: int, subtask: int, depth: int) -> Future[list[StacksSampled]]:
        """Take one sample of the stacks of all threads in the process of a subtask."""
        return self._samplings.request(vertex, samples=1, delay_ms=0, depth=depth, threads_of=subtask)

    def update(self, program: bytes, allow_non_restored: bool = False) -> Future[str]:
        """Give the job the functions of a packed program. The future completes when they are recorded.

        `allow_non_restored`: accept a program that does not use some of the state.
        """
        script = vars(sys.modules["__main__"])
        added: dict[str, type] = {}
        recorded: Future[str] = Future()

        def event(number: int) -> JobEvent:
            new = unpack_program(program, this_python())
            # Tasks that are deployed later also get the classes of the script.
            added.update(new.classes)
            script.update(added)
            return UpdateRequested(number, new.graph, program_pickler.dumps(new.classes), allow_non_restored)

        def updated(done: Future[str]) -> None:
            if (error := done.exception()) is not None:
                # No object uses these classes, and the corrected program may have others with these names.
                for name in added:
                    del script[name]
                complete(recorded, error=error)
                return

            def record() -> None:
                try:
                    self.on_plan(self._master.graph)
                except RAISED as failed:
                    text = f"{done.result()}. But the functions cannot be recorded: a new run of the job would use the "
                    complete(recorded, error=JobError(f"{text}previous ones: {failed}"))
                else:
                    complete(recorded, done.result())

            if not self._storage.call(record):
                complete(recorded, done.result())

        self._requests.request(event).add_done_callback(updated)
        return recorded

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
        # Also from an attempt that has ended: its lines may show the reason.
        if isinstance(message.report, Heartbeat) and message.report.log:
            self._on_worker_lines(message.level, message.index, message.report.log)
        key = (message.attempt, SlotId(message.level, message.index))
        if self._master.is_present(message.level, message.attempt):
            if isinstance(message.report, Heartbeat):
                self.metrics.update(message.report.reports, message.attempt)
            # A slot's first message makes its identity known. After a reconnect it has another one: see connections.py.
            if self._identities.get(key) != identity:
                self._identities[key] = identity
                for waiting in self._unsent.pop(key, []):
                    self._server.send(identity, waiting)
        self._handle(Reported(message, identity))

    def _handle(self, event: JobEvent) -> None:
        self._log_lines.log_event(event)
        try:
            self._carry_out(self._handled(event))
        except RAISED as error:
            self._fail(error)

    def _handled(self, event: JobEvent) -> list[JobEffect]:
        at_ms = now_ms()
        effects = self._master.handle(event, at_ms)
        self._recorder.record(event, effects, at_ms)
        if self._spans is not None:
            master = self._master
            restored_id = max(region.attempt.restored_id for region in master.regions)
            self._spans.status(master.status, master.restarts, restored_id, at_ms)
        return effects

    def _fail(self, error: BaseException) -> None:
        """Fail all regions after an internal error. If the JobMaster cannot handle that either, end the job."""
        fault = _with_journal(error, self._master)
        try:
            effects = self._handled(HostFailed(fault))
        except RAISED:
            _log.exception("the JobMaster cannot continue")
            self._end_here(fault)
        else:
            self._carry_out(effects)

    def _end_here(self, error: BaseException) -> None:
        """End the job without its JobMaster."""
        self._fault = as_exception(error)
        self._recorder.master_failed(self._fault, now_ms())
        stops = [StopAttempt(region.attempt.id) for region in self._master.regions]
        self._carry_out([*stops, CloseResults(self._fault), Finish(JobStatus.FAILED, self._fault)])

    def _thread_failed(self, error: BaseException) -> None:
        """Fail the job because another thread has no outcome, for which the JobMaster waits."""
        self._server.call_soon(lambda: self._fail(error))

    def _carry_out(self, effects: list[JobEffect]) -> None:
        self._log_lines.log_effects(effects)
        first_error: BaseException | None = None
        for effect in effects:
            try:
                self.carry_out(effect)
            except RAISED as error:
                # Carry out the other effects too: the JobMaster waits for their outcomes.
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    def store(self, effect: StorageEffect) -> None:
        self._storage.carry_out(effect)

    def note(self, notice: JobNotice) -> None:
        """Do nothing: the log and the listeners get notices with all other effects."""

    def stop_attempt(self, effect: StopAttempt) -> None:
        self._queries.put(effect)

    def reply(self, effect: Reply) -> None:
        self._requests.answer(effect)

    def reply_state(self, effect: StateReply) -> None:
        self._reads.answer(effect)

    def reply_stacks(self, effect: StacksReply) -> None:
        self._samplings.answer(effect)

    def deploy(self, effect: Deploy) -> None:
        self.metrics.deployed(effect.graph)
        self._queries.put(effect)

    def call_async(self, effect: CallAsync) -> None:
        # A daemon thread for each call: one that hangs forever delays neither another call nor the program's end.
        start_thread("penstock-enumerator", lambda: self.post(make_call(effect)), self._thread_failed)

    def count_slots(self, effect: CountSlots) -> None:
        """Count slots on the storage thread, as for a request: Spark's JVM may be slow."""

        def count() -> None:
            try:
                self.post(SlotsCounted(self._available_slots()))
            except RAISED as error:
                self.post(SlotsCounted(error=f"cannot count the slots of Spark: {error}"))

        self._storage.call(count)

    def send_to_slot(self, effect: SendToSlot) -> None:
        key = (effect.message.attempt, effect.slot)
        identity = self._identities.get(key)
        if identity is None:
            self._unsent.setdefault(key, []).append(effect.message)
        else:
            self._server.send(identity, effect.message)

    def restart_results(self, effect: RestartResults) -> None:
        # Slots of previous attempts no longer read their messages. Slots of other regions do.
        for waiting in (self._identities, self._unsent):
            for key in [key for key in waiting if not self._master.is_present(key[1].level, key[0])]:
                del waiting[key]
        super().restart_results(effect)

    def finish(self, effect: Finish) -> None:
        self.on_end()
        if self._spans is not None:
            self._spans.ended(effect.error, now_ms())
        # From here on `post` returns False, and the thread that makes a request fails it.
        self._server.stop()
        self._queries.end()

        def released() -> None:
            try:
                # This is the last call on this thread, which makes the requests.
                self._requests.end()
                self._reads.end()
                self._samplings.end()
                self.after_storage()
                if self._traces is not None:
                    self._traces.close()
            finally:
                # Also after an error: the outcome is decided, and the program waits for it.
                self.ended.set()

        self._storage.end(released)


def _with_journal(error: BaseException, master: JobMaster) -> Exception:
    if isinstance(error, PenstockError):
        return error
    failure = JobError(f"{type(error).__name__}: {error}\nThe JobMaster's last events:\n{master.journal}")
    failure.__cause__ = error
    return failure
