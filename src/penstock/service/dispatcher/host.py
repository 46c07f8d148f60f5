"""The host of a dispatcher: the thread that passes it events and carries out its effects, and the processes of jobs."""

from __future__ import annotations

import copy
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.common.errors import JobError
from penstock.common.files.cache_directory import cache_directory
from penstock.common.functions.user_calls import RAISED
from penstock.common.job_threads import start_loop, start_thread
from penstock.common.time.wall_clock import now_ms
from penstock.common.values.decoding import from_msgpack
from penstock.hosts.logs.settings import DIRECTORY
from penstock.hosts.spark.driver.executors import Executors
from penstock.hosts.spark.driver.slots import max_slots
from penstock.hosts.spark.internals.jvm import concurrent_tasks, is_lost_connection
from penstock.hosts.spark.internals.shared_context import address_of, cancel_tagged, is_tagged
from penstock.hosts.spark.job_files import job_tag
from penstock.service.client.packed_job import PackedJob, read_packed_job
from penstock.service.cluster.high_availability.pointers import NotLeadingError
from penstock.service.cluster.job_reference import newest_named
from penstock.service.dispatcher.dispatcher import DispatchedJob, Dispatcher
from penstock.service.dispatcher.events import (
    CancelJob,
    Drop,
    Effect,
    EndRecorded,
    Event,
    Leads,
    LeftoversStopped,
    ProcessEnded,
    Record,
    ReleaseSlots,
    SlotsAnswer,
    SlotsCounted,
    SlotsIdle,
    StartProcess,
    StopLeftovers,
    Submitted,
)
from penstock.service.dispatcher.job_store import JobStore
from penstock.service.dispatcher.leadership_lease import LeadershipLease
from penstock.service.dispatcher.supervised_process import SupervisedProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNT_S = 1.0
_LOOK_S = 0.1
_log = logging.getLogger(__name__)


def job_named(name: str, jobs: Iterable[DispatchedJob]) -> DispatchedJob | None:
    """Return the job with this name, of several the newest that has not ended, else the newest."""
    return newest_named(name, jobs, lambda job: job.name, lambda job: job.ended_ms is not None)


class DispatcherHost:
    """`session`: of the Spark application that all jobs share. `store` has the jobs of an earlier dispatcher.

    `lease`: until when this process leads; None: it is always the leader. `deposed` is called with the reason when
    another process leads. `executors`: those that are requested and released with demand; None: their number is fixed.
    """

    def __init__(
        self,
        session: SparkSession,
        store: JobStore,
        lease: LeadershipLease | None = None,
        deposed: Callable[[str], object] = lambda why: None,
        executors: Executors | None = None,
    ) -> None:
        self._executors = executors
        self._lease = lease or LeadershipLease()
        self._deposed = deposed
        self._submitting = threading.Lock()
        self._session = session
        self._java = address_of(session)
        self.store = store
        self.log_directory = store.directory
        """The folder with the log of this process."""
        self.job_logs = cache_directory(os.environ) / DIRECTORY
        """The folder with the logs of each job, or links to them."""
        self._dispatcher = Dispatcher(self._count(), store.jobs())
        self._processes: dict[str, SupervisedProcess] = {}
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._published: dict[str, DispatchedJob] = {}
        self._changed = threading.Condition()
        self.slots = self._dispatcher.slots
        """The number of all slots."""
        self.free = 0
        """The number of free slots."""
        self._wanted = 0
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        """Start with the jobs that an earlier dispatcher has left."""
        self._publish()
        self._lease.on_extension = self._forward_lease
        self._thread = start_thread("penstock-dispatcher", self._run, lambda _: self._ended.set())
        # Spark may fail to answer once. Without this thread, jobs would wait for slots forever.
        start_loop("penstock-slots", self._count_and_ask, lambda _: None)

    def close(self) -> None:
        """Kill the processes of all jobs: the next dispatcher resumes them."""
        self._ended.set()
        self._events.put(None)
        with self._changed:
            self._changed.notify_all()
        # From here on nothing is recorded, so that the end of a process is not taken for the end of its job.
        if self._thread is not None:
            self._thread.join()
        for process in list(self._processes.values()):
            process.kill()
        self.store.close()

    # Called by any thread.

    @property
    def has_ended(self) -> bool:
        """Whether the dispatcher has stopped: it was closed, or has failed, which is logged."""
        return self._ended.is_set()

    @property
    def jobs(self) -> list[DispatchedJob]:
        """A recent copy of all jobs, in the order of their submission."""
        return list(self._published.values())

    def find(self, id: str) -> DispatchedJob | None:
        """Return a job by its id, that of its submission, or its name.

        Of jobs that took each other over: the newest one.
        """
        newest = self.newest()
        return newest.get(id) or self._published.get(id) or job_named(id, newest.values())

    def newest(self) -> dict[str, DispatchedJob]:
        """Return the jobs by id, or by id of the submission while they lack one."""
        return {job.job_id or job.id: job for job in self.jobs}

    def submit(self, id: str, packed: bytes) -> None:
        """Accept a job. Raises JobError if it can never run here, or the store can't be written; NotLeadingError."""
        description = from_msgpack(packed, PackedJob).description
        most = max_slots(self._session) if self._executors is None else self._executors.slots_max
        if most is not None and description.slots > most:
            raise JobError(
                f"the job '{description.name}' needs {description.slots} slots at once, and this cluster has {most}. "
                "Run it with a lower parallelism (-p), or start a cluster with more: penstock cluster start --slots"
            )
        with self._submitting:
            if id in self._published:
                # Its client has not received the answer, and retries.
                return
            if self._ended.is_set():
                raise NotLeadingError("this process is about to end")
            at_ms = now_ms()
            try:
                self.store.add(
                    DispatchedJob(id, description.name, description.slots, at_ms), packed, description.bundle
                )
            except OSError as error:
                raise JobError(f"the cluster cannot store the job: {error}") from error
            except NotLeadingError as error:
                self._deposed(str(error))
                raise
            self.post(Submitted(at_ms, id, description.name, description.slots))
            # Publish first: the client may ask for the job as soon as it has its id.
            with self._changed:
                self._changed.wait_for(lambda: id in self._published or self._ended.is_set())

    def post(self, event: Event) -> None:
        """Pass an event to the dispatcher."""
        self._events.put(event)

    # Run in the dispatcher's thread.

    def _run(self) -> None:
        try:
            self._carry_out(self._dispatcher.start(now_ms()))
            self._publish()
            while (event := self._events.get()) is not None:
                self._carry_out(self._dispatcher.handle(event))
                self._publish()
        except NotLeadingError as error:
            # Skip the remaining effects: no job may start here that another leader starts.
            self._deposed(str(error))
            raise

    def _publish(self) -> None:
        with self._changed:
            self._published = {id: copy.copy(job) for id, job in self._dispatcher.jobs.items()}
            self.slots, self.free = self._dispatcher.slots, max(0, self._dispatcher.free)
            self._wanted = self._dispatcher.wanted
            self._changed.notify_all()

    def _carry_out(self, effects: list[Effect]) -> None:
        stored = True
        for effect in effects:
            if isinstance(effect, Record):
                stored = self._record(effect.id)
            elif isinstance(effect, StartProcess):
                self._start(effect)
            elif isinstance(effect, (SlotsAnswer, CancelJob, EndRecorded)):
                process = self._processes.get(effect.id)
                if process is not None and (stored or not isinstance(effect, EndRecorded)):
                    process.send(effect)
            elif isinstance(effect, StopLeftovers):
                # Spark may fail to answer once. Without this thread, the slots of the job would be held forever.
                name = f"penstock-leftovers-{effect.id[:8]}"
                start_loop(name, partial(self._stop_leftovers, effect), lambda _: time.sleep(_COUNT_S))
            elif isinstance(effect, ReleaseSlots) and self._executors is not None:
                # In this thread, which grants no slots in the meantime.
                self._release_idle(self._executors)
            elif isinstance(effect, Drop):
                self.store.drop(effect.id)

    @staticmethod
    def _release_idle(executors: Executors) -> None:
        try:
            executors.release_idle()
        except RAISED:
            # They are counted again in a second.
            _log.exception("cannot release idle executors")

    def _record(self, id: str) -> bool:
        """Record a job's state, and return whether it is stored."""
        job, stored = self._dispatcher.jobs[id], True
        try:
            self.store.record(job)
        except OSError as error:
            # The job itself can continue. If this process ends too, the next one finds the previous state.
            _log.error("cannot record the state of the job '%s': %s", job.name, error)
            stored = False
        if job.status is not None and stored:
            self.store.release(id)
            _log.info("job %s '%s': %s %s", id, job.name, job.status.name, job.error)
        return stored

    def _start(self, effect: StartProcess) -> None:
        id, folder = effect.id, self.store.folder(effect.id)
        _log.info("job %s '%s' is started", id, self._dispatcher.jobs[id].name)

        def ended(how: str) -> None:
            self._processes.pop(id, None)
            self.post(ProcessEnded(now_ms(), id, how))

        try:
            description = read_packed_job(folder / "job").description
            self._processes[id] = SupervisedProcess(
                id=id,
                folder=folder,
                working_directory=description.working_directory,
                jvm=self._java,
                until_ms=self._lease.until_ms,
                resumes=effect.resumes,
                received=self.post,
                ended=ended,
            )
        except (OSError, JobError) as error:
            ended(f"cannot start the process of the job: {error}")

    # Run in threads of their own.

    def _forward_lease(self, until_ms: int, asked_ms: int) -> None:
        for id, process in list(self._processes.items()):
            process.send_unless_blocked(Leads(id, until_ms, asked_ms))

    def _stop_leftovers(self, effect: StopLeftovers) -> bool:
        """Stop what Spark still runs of a job. Return whether to call it again."""
        tag = job_tag(effect.job_id)
        if effect.job_id and not self._ended.is_set():
            cancel_tagged(self._session, tag)
            if is_tagged(self._session, tag):
                time.sleep(_LOOK_S)
                return True
        self.post(LeftoversStopped(now_ms(), effect.id))
        return False

    def _count_and_ask(self) -> bool:
        """Count the slots of a cluster, where executors come and go. Return False if the dispatcher has ended."""
        if self._ended.wait(_COUNT_S):
            return False
        try:
            if (count := self._count()) != self.slots:
                self.post(SlotsCounted(now_ms(), count))
            if self._executors is not None:
                self._executors.request(self._wanted)
                if spare := self._executors.idle_slots():
                    self.post(SlotsIdle(now_ms(), spare))
        except RAISED as error:
            if not is_lost_connection(error):
                raise
            _log.warning("cannot count the slots: Spark's JVM does not answer")
        return True

    def _count(self) -> int:
        return concurrent_tasks(self._session)
