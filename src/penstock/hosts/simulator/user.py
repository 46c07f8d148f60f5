"""The user of a simulated job: triggers checkpoints and savepoints, aborts, cancels, starts the job again."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.events import (
    CancelRequested,
    CheckpointRequested,
    RescaleRequested,
    SavepointRequested,
    UpdateRequested,
)
from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.messages import SlotReport
from penstock.engine.runtime.checkpoint_options import CheckpointOptions, DeclineReason
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.events import Decline
from penstock.engine.runtime.task.slot import Slot
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.master_host import MasterHost
from penstock.hosts.simulator.report import Trace
from penstock.hosts.simulator.storage import SAVEPOINTS
from penstock.hosts.simulator.workers import Workers


def other_version(graph: JobGraph, version: int) -> JobGraph:
    """Return the plan with functions of that version, as a user would submit it. They behave the same."""
    other: JobGraph = pickle.loads(program_pickler.dumps(graph))
    for vertex in other.vertices:
        for node in vertex.nodes:
            if not node.operator.holds_functions:
                for place in node.operator.function_places():
                    vars(_of_user(place.function))["version"] = version
    return other


def check_versions(graph: JobGraph, slots: Iterable[Slot]) -> None:
    """Check that the functions of all tasks have the version of the plan."""
    planned = {vertex.id: [_versions(node.operator) for node in vertex.nodes] for vertex in graph.vertices}
    for slot in slots:
        for vertex, task in slot.tasks.items():
            running = [_versions(operator) for operator in task.chain.operators]
            assert running == planned[vertex], (
                f"{task.info}: functions of versions {running}, planned {planned[vertex]}"
            )


def _versions(operator: Operator) -> list[int]:
    return [vars(_of_user(place.function)).get("version", 0) for place in operator.function_places()]


def _of_user(function: UserFunction) -> object:
    instance = function.instance
    return getattr(instance, "adapted", instance)


_DRAWS = 5
"""How often the user draws parallelisms until they differ from the current ones."""


class UsedJob(Protocol):
    """The view of a simulation for its user."""

    clock: Clock

    @property
    def driver(self) -> MasterHost:
        """Return the current driver."""

    def handle(self, event: Any) -> None:
        """Let the current job master handle an event."""

    def report(self, slot: SlotId, attempt: int, report: SlotReport) -> None:
        """Send a report of a slot to the job master."""


class User:
    """The user of one simulation, through all its jobs."""

    def __init__(
        self,
        job: UsedJob,
        workers: Workers,
        random: Random,
        circumstances: Circumstances,
        trace: Trace,
        rescaled: Callable[[Random], JobGraph] | None,
    ) -> None:
        """`rescaled` returns the plan of the program with other parallelisms; None if it can't be rescaled."""
        self.restarts = False
        """Whether the user has canceled the job to start it again from its latest checkpoint."""
        self._job = job
        self._workers = workers
        self._random = random
        self._circumstances = circumstances
        self._trace = trace
        self._rescaled = rescaled
        self._requests = itertools.count()

    def cancel(self) -> None:
        """Cancel the job."""
        self._trace.add("user", "cancel")
        self._job.handle(CancelRequested())

    def trigger_checkpoint(self) -> int | None:
        """Trigger a checkpoint, if the job is running. Returns its number."""
        coordinator = self._job.driver.master.coordinator
        before = coordinator.under_way
        self._job.handle(CheckpointRequested(CheckpointOptions(full=self._random.random() < 0.1)))
        begun = [n for n in coordinator.under_way if n not in before]
        if begun:
            self._trace.add("job master", f"trigger checkpoint {begun[0]}")
        return begun[0] if begun else None

    def take_savepoint(self) -> None:
        """Request a savepoint; perhaps stop the job with it, or drain the job into it."""
        if self._circumstances.checkpointing:
            stop = self._random.random() < self._circumstances.stop_rate
            drain = stop and self._random.random() < self._circumstances.drain_rate
            directory = f"{SAVEPOINTS}{self._trace.steps}"
            options = CheckpointOptions(savepoint=directory, stop=stop, drain=drain)
            self._job.driver.request(SavepointRequested(next(self._requests), options))

    def rescale(self) -> None:
        """Request other parallelisms, as after a restart of the program."""
        if self._rescaled is None:
            return
        graph = self._job.driver.master.graph
        for _ in range(_DRAWS):
            other = self._rescaled(self._random)
            by_name = {node.name: vertex.parallelism for vertex in other.vertices for node in vertex.nodes}
            wanted = {vertex.id: by_name[vertex.nodes[0].name] for vertex in graph.vertices}
            if any(vertex.parallelism != wanted[vertex.id] for vertex in graph.vertices):
                request = RescaleRequested(next(self._requests), wanted)
                self._job.driver.change(request, f"rescales to {list(wanted.values())}")
                return

    def read_state(self) -> None:
        """Query keyed state."""
        self._job.driver.queries.ask(self._workers.hosts, self._job.handle)

    def update(self) -> None:
        """Replace the functions of the job."""
        number = next(self._requests)
        program = other_version(self._job.driver.master.graph, number + 1)
        self._job.driver.change(UpdateRequested(number, program), "updates the job")

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Abort a checkpoint: a task can't write its state, as with a full disk."""
        self._trace.add("user", f"makes a task decline checkpoint {checkpoint_id}")
        slot = SlotId(0, 0)
        host = self._workers.hosts.get(slot)
        if host is not None and host.slot is not None and not host.discarding:
            decline = Decline(
                min(host.slot.tasks), 0, checkpoint_id, reason=DeclineReason.STATE, detail="its disk was full"
            )
            self._job.report(slot, host.attempt, decline)

    def abort_newest(self) -> None:
        """Abort the newest running checkpoint."""
        under_way = self._job.driver.master.coordinator.under_way
        if under_way:
            self.abort_checkpoint(max(under_way))

    def restart_by_hand(self) -> None:
        """Cancel a job that waits for its restart, to start it again from its latest checkpoint."""
        if self._job.driver.master.status is JobStatus.RESTARTING and self._circumstances.checkpointing:
            self.restarts = True
            self.cancel()
