"""A pending checkpoint: the tasks that have acknowledged, and the state that they reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from penstock.engine.checkpoint.commits import Committables, NumberedCommittables
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, SubtaskReport, packed
from penstock.engine.checkpoint.plan import CheckpointPlan, CheckpointVertex
from penstock.engine.checkpoint.schedule import CheckpointRequest
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.state.handles import SubtaskState, files_of


class JobIdentity(NamedTuple):
    """The job that writes a manifest, as the manifest names it."""

    job_id: str
    job_name: str
    attempt: int = 0
    epoch: int = 1
    compiled_plan: str = ""
    """See Manifest.compiled_plan."""


class PendingCheckpoint:
    """Collects the acknowledgements of all tasks and builds the manifest."""

    def __init__(
        self,
        checkpoint_id: int,
        triggered_ms: int,
        enumerators: dict[str, str],
        plan: CheckpointPlan,
        request: CheckpointRequest,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.triggered_ms = triggered_ms
        self.request = request
        self._enumerators = enumerators
        self._missing = set(plan.tasks)
        self.task_count = len(self._missing)
        """How many tasks must acknowledge."""
        self.parallelism = Counter(task.vertex for task in plan.tasks)
        """The number of tasks by vertex. The next attempt may have other numbers."""
        self._names = {vertex.id: vertex.name for vertex in plan.vertices}
        self._states: dict[SubtaskId, SubtaskState] = {}
        self._reports: dict[SubtaskId, SubtaskReport] = {}
        self._prepared: list[Committables] = []
        self.named: list[NumberedCommittables] | None = None
        """Set while the manifest is being stored: what it names in addition to the open commits."""

    @property
    def savepoint(self) -> str:
        """The directory of a savepoint; empty for a checkpoint."""
        return self.request.options.savepoint

    @property
    def is_acknowledged(self) -> bool:
        """Whether all tasks have acknowledged."""
        return not self._missing

    @property
    def acknowledged(self) -> int:
        """How many tasks have acknowledged."""
        return self.task_count - len(self._missing)

    @property
    def reports(self) -> dict[SubtaskId, SubtaskReport]:
        """A copy of the tasks' measurements, in the order in which the tasks acknowledged."""
        return dict(self._reports)

    @property
    def is_being_stored(self) -> bool:
        """Whether its manifest is being stored: the outcome is open, so it cannot be aborted."""
        return self.named is not None

    def acknowledge(self, task: SubtaskId, state: SubtaskState, prepared: list[Committables]) -> None:
        """Record the acknowledgement of a task. A second one of the same task changes nothing."""
        if task in self._missing:
            self._missing.discard(task)
            self._states[task] = state
            self._reports[task] = SubtaskReport(self._names[task.vertex], task.subtask, state.ended, state.figures)
            self._prepared += prepared

    def take_prepared(self) -> list[NumberedCommittables]:
        """Remove and return what sinks prepared for this checkpoint."""
        prepared, self._prepared = self._prepared, []
        return [(self.checkpoint_id, committables) for committables in prepared]

    def files(self) -> set[str]:
        """Return the state files that acknowledgements have named so far."""
        return set().union(*(files_of(state.operators.values()) for state in self._states.values()))

    def manifest(
        self, job: JobIdentity, vertices: Sequence[CheckpointVertex], commits: list[Committables], now_ms: int
    ) -> Manifest:
        """Return the manifest. `commits`: everything that is still to be committed."""
        operators = []
        reports = [
            self._reports[SubtaskId(vertex.id, subtask)] for vertex in vertices for subtask in range(vertex.parallelism)
        ]
        for vertex in vertices:
            states = [self._states[SubtaskId(vertex.id, subtask)] for subtask in range(vertex.parallelism)]
            for state_id, name in vertex.operators:
                parts = [
                    SubtaskPart(subtask, state.operators[state_id])
                    for subtask, state in enumerate(states)
                    if state_id in state.operators
                ]
                if parts:
                    parallelism, max_parallelism = vertex.parallelism, vertex.max_parallelism
                    operators.append(OperatorPart(state_id, name, parallelism, max_parallelism, subtasks=parts))
        return Manifest(
            job_id=job.job_id,
            job_name=job.job_name,
            checkpoint_id=self.checkpoint_id,
            attempt=job.attempt,
            triggered_ms=self.triggered_ms,
            completed_ms=now_ms,
            operators=operators,
            subtasks=reports,
            enumerators=self._enumerators,
            commits=_commits_by_sink(vertices, commits),
            savepoint=bool(self.savepoint),
            epoch=job.epoch,
            compiled_plan=job.compiled_plan,
        ).with_oldest_reader()


def _commits_by_sink(vertices: Sequence[CheckpointVertex], commits: list[Committables]) -> dict[str, list[str]]:
    # By state id: the number of a sink may differ in the program that restores the checkpoint.
    state_ids = {sink: state_id for vertex in vertices for sink, state_id in vertex.sinks.items()}
    by_sink: dict[str, list[str]] = {}
    for sink, subtask, values in commits:
        by_sink.setdefault(state_ids[sink], []).append(packed((subtask, values)))
    return by_sink
