"""A checkpoint that is being collected: which tasks have acknowledged, and what they brought."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from penstock.engine.checkpoint.commits import Committables, Numbered
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, SubtaskReport, packed
from penstock.engine.checkpoint.plan import CheckpointPlan, CheckpointVertex
from penstock.engine.checkpoint.requests import CheckpointRequest
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.state.handles import SubtaskState, files_of


class JobIdentity(NamedTuple):
    """What a manifest names of the job that wrote it."""

    job_id: str
    job_name: str
    attempt: int = 0
    epoch: int = 1


class PendingCheckpoint:
    """Collects acknowledgements until none is missing; then its manifest is stored."""

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
        self.of_tasks = len(self._missing)
        """How many tasks have to acknowledge it."""
        self.parallelism = Counter(task.vertex for task in plan.tasks)
        """The same by vertex. The next attempt may have others."""
        self._names = {vertex.id: vertex.name for vertex in plan.vertices}
        self._states: dict[SubtaskId, SubtaskState] = {}
        self._reports: dict[SubtaskId, SubtaskReport] = {}
        self._prepared: list[Committables] = []
        self.named: list[Numbered] | None = None
        """Set when its manifest is being stored: what the manifest names besides the open commits."""

    @property
    def savepoint(self) -> str:
        """The directory of a savepoint; empty for a checkpoint."""
        return self.request.options.savepoint

    @property
    def is_acknowledged(self) -> bool:
        """Whether all tasks have taken their part."""
        return not self._missing

    @property
    def acknowledged(self) -> int:
        """How many tasks have."""
        return self.of_tasks - len(self._missing)

    @property
    def reports(self) -> dict[SubtaskId, SubtaskReport]:
        """Figures of those that have, in the order in which they came. It is a copy."""
        return dict(self._reports)

    @property
    def is_being_stored(self) -> bool:
        """Whether its manifest is on its way to the storage: its outcome is open, so it can't be aborted."""
        return self.named is not None

    def acknowledge(self, task: SubtaskId, state: SubtaskState, prepared: list[Committables]) -> None:
        """A task has taken its part. A second acknowledgement of the same task changes nothing."""
        if task in self._missing:
            self._missing.discard(task)
            self._states[task] = state
            self._reports[task] = SubtaskReport(self._names[task.vertex], task.subtask, state.ended, state.figures)
            self._prepared += prepared

    def take_prepared(self) -> list[Numbered]:
        """Remove and return what sinks prepared for it."""
        prepared, self._prepared = self._prepared, []
        return [(self.checkpoint_id, committables) for committables in prepared]

    def files(self) -> set[str]:
        """The state files that acknowledgements have named so far."""
        return set().union(*(files_of(state.operators.values()) for state in self._states.values()))

    def manifest(
        self, job: JobIdentity, vertices: Sequence[CheckpointVertex], commits: list[Committables], now_ms: int
    ) -> Manifest:
        """The manifest, with everything that is still to be committed in it."""
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
                    operators.append(OperatorPart(state_id, name, vertex.parallelism, vertex.max_parallelism, parts))
        return Manifest(
            job.job_id,
            job.job_name,
            self.checkpoint_id,
            job.attempt,
            self.triggered_ms,
            now_ms,
            operators,
            reports,
            self._enumerators,
            _commits_by_sink(vertices, commits),
            savepoint=bool(self.savepoint),
            epoch=job.epoch,
        ).refused_by_earlier()


def _commits_by_sink(vertices: Sequence[CheckpointVertex], commits: list[Committables]) -> dict[str, list[str]]:
    # By state id: the number of a sink may be another one in the program that is restored.
    state_ids = {sink: state_id for vertex in vertices for sink, state_id in vertex.sinks.items()}
    by_sink: dict[str, list[str]] = {}
    for sink, subtask, values in commits:
        by_sink.setdefault(state_ids[sink], []).append(packed((subtask, values)))
    return by_sink
