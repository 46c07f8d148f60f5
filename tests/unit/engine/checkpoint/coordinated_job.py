"""A coordinator whose tasks, storage and sinks are played by the test."""

from __future__ import annotations

from random import Random

from penstock.common.errors import FencedError
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints, RecordedEnd
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.effects import Commit, SendToTask, StorageEffect
from penstock.engine.checkpoint.manifest import packed
from penstock.engine.checkpoint.pending import JobIdentity
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.schedule import CheckpointRequest, CheckpointSettings
from penstock.engine.checkpoint.storage_requests import StorageRequests, carry_out
from penstock.engine.runtime.checkpoint_options import CheckpointOptions, DeclineReason
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import TriggerCheckpoint
from penstock.engine.state.handles import KeyedFile, OperatorState, SubtaskState
from penstock.hosts.simulator.storage import MemoryStorage

SOURCE, COUNT = 0, 1
SINK = 7


VERTICES = [
    CheckpointVertex(SOURCE, "source", 2, 128, [("s", "source")], True),
    CheckpointVertex(COUNT, "count", 2, 128, [("c", "count"), ("w", "sink")], False, {SINK: "w"}),
]


class Job:
    """Two source subtasks, two counting ones; tasks, storage and sinks are played by the test."""

    def __init__(self, **settings) -> None:
        self.now_ms = 1_000
        self.storage = MemoryStorage(Random(0), 0)
        self.run = self.storage.new_job("a job")
        self.told: list = []
        self.committed: list = []
        self.aborted: list = []
        self.commits: list[Commit] = []
        """Commits that were handed out and not done, in order."""
        self.operations: list[StorageEffect] = []
        """Storage operations that are not carried out, in order."""
        self.commits_at_once = self.stores_at_once = True
        self.effects: list = []
        of_job = CheckpointSettings(**{"failures_tolerated": 100, **settings})
        self.requests = StorageRequests(self.effects.append)
        self.completed = CompletedCheckpoints(self.requests, of_job.retained)
        self.end = RecordedEnd(self.requests, self.completed, epoch=1)
        self.coordinator = CheckpointCoordinator(
            JobIdentity("job", "a job"), of_job, self.requests, self.completed, self.end, self.effects.append
        )
        self.coordinator.tasks_began(0, VERTICES, lambda: {"s": packed(["split"])}, self.now_ms)

    def does(self) -> Job:
        """Carry out the coordinator's effects, and the effects that follow from these."""
        while self.effects:
            effect = self.effects.pop(0)
            if isinstance(effect, SendToTask):
                self.told.append((effect.vertex, effect.subtask, effect.event))
            elif isinstance(effect, StorageEffect):
                self.operations.append(effect)
                if self.stores_at_once:
                    self.stores()
            elif isinstance(effect, Commit):
                self.committed.append((effect.sink, effect.subtask, effect.committables))
                self.commits.append(effect)
                if self.commits_at_once:
                    self.commits_next()
            else:
                self.aborted.append((effect.sink, effect.subtask, effect.committables))
        return self

    def stores(self) -> Job:
        """Carry out the oldest operation of the storage."""
        effect = self.operations.pop(0)
        error, fenced = "", False
        try:
            carry_out(effect, self.run)
        except (OSError, FencedError) as failure:
            error, fenced = str(failure), isinstance(failure, FencedError)
        self.coordinator.storage_ended(effect.operation, error, self.now_ms, fenced)
        return self.does()

    def commits_next(self) -> None:
        self.coordinator.committed(self.commits.pop(0).operation)

    def triggers(self) -> int:
        number = self.coordinator.trigger(self.now_ms)
        self.does()
        return number

    def asks(self, then=lambda outcome: None, savepoint: str = "", stop: bool = False) -> Job:
        options = CheckpointOptions(savepoint=savepoint, stop=stop)
        self.coordinator.request(CheckpointRequest(then, options), self.now_ms)
        return self.does()

    def passes(self, ms: int) -> Job:
        self.now_ms += ms
        self.coordinator.tick(self.now_ms)
        return self.does()

    def declines(self, task: tuple[int, int], checkpoint_id: int, reason: str) -> Job:
        self.coordinator.declined(SubtaskId(*task), checkpoint_id, DeclineReason.STATE, reason, self.now_ms)
        return self.does()

    def aborts(self, checkpoint_id: int) -> Job:
        """Abort the checkpoint for a reason that does not count."""
        self.coordinator.declined(SubtaskId(COUNT, 0), checkpoint_id, DeclineReason.ALIGNMENT_LIMIT, "", self.now_ms)
        return self.does()

    def ends_attempt(self) -> Job:
        """End all tasks."""
        return self.ends_tasks(VERTICES)

    def ends_tasks(self, vertices: list[CheckpointVertex]) -> Job:
        self.coordinator.tasks_ended(vertices, self.now_ms)
        return self.does()

    def triggered(self) -> list[int]:
        """Return the checkpoints that were triggered at sources since the last call."""
        told, self.told = self.told, []
        return sorted({event.checkpoint_id for _, _, event in told if isinstance(event, TriggerCheckpoint)})

    def acknowledge(self, checkpoint_id: int, *tasks: tuple[int, int], file: str = "", commits=()) -> Job:
        for task in tasks or ((SOURCE, 0), (SOURCE, 1), (COUNT, 0), (COUNT, 1)):
            state = SubtaskState()
            if file:
                name = f"{file}-{task[0]}-{task[1]}"
                self.storage.files[name] = b""
                state = SubtaskState({"c": OperatorState([KeyedFile(name, 0, [], [])])})
            prepared = list(commits) if task[0] == COUNT else []
            self.coordinator.acknowledged(SubtaskId(*task), checkpoint_id, state, prepared, self.now_ms)
            self.does()
        return self

    @property
    def complete(self) -> list[int]:
        return sorted(self.storage.manifests)
