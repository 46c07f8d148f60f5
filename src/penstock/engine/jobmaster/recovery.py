"""What the next attempt of a region is restored from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.restore import Restored, assign, enumerator_states
from penstock.engine.jobmaster.checkpoint_vertices import checkpoint_vertices
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph


class Recovery:
    """The newest checkpoint of the job's own, or savepoint that it has committed, else `origin`, else nothing."""

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        completed: CompletedCheckpoints,
        origin: Manifest | None,
        settings: JobSettings,
        origin_at: str = "",
        directory: str = "",
    ) -> None:
        self._coordinator = coordinator
        self._completed = completed
        self._origin = origin
        self._allow_non_restored = settings.allow_non_restored_state
        self._origin_at = origin_at
        self._directory = directory

    @property
    def manifest(self) -> Manifest | None:
        """What the next attempt starts from; None: from the beginning."""
        return self._completed.newest or self._origin

    @property
    def path(self) -> str:
        """Where that is; empty: it is a checkpoint of this job, in its directory."""
        manifest = self.manifest
        if manifest is None or manifest is self._origin:
            return self._origin_at if manifest is not None else ""
        saved = (report for report in self._coordinator.history.savepoints if report.is_completed)
        return next((report.savepoint for report in saved if report.checkpoint_id == manifest.checkpoint_id), "")

    @property
    def full_path(self) -> str:
        """The same, in full; empty: there is none."""
        manifest = self.manifest
        return self.path or (f"{self._directory}/chk-{manifest.checkpoint_id}" if manifest is not None else "")

    def enumerator_states(self, sources: dict[int, str]) -> dict[int, Any]:
        """What split enumerators need to go on, by vertex. `sources`: the state id of each vertex that is a source."""
        manifest = self.manifest
        if manifest is None:
            return {}
        by_id = enumerator_states(manifest)
        return {vertex: by_id[state_id] for vertex, state_id in sources.items() if state_id in by_id}

    def restore(self, vertices: Sequence[CheckpointVertex], graph: JobGraph) -> Restored:
        """What the tasks of `vertices` are restored from; commits what the manifest names of their sinks once more.

        `graph`: that of the whole job. Raises CheckpointError.
        """
        manifest = self.manifest
        if manifest is None:
            return {}
        # A commit that was under way when a worker or the driver died may not have been made.
        self._coordinator.commit_again(manifest, vertices)
        # Another job, or the user, may remove other files at any time: no checkpoint of this job may build on them.
        own = manifest is not self._origin and not manifest.savepoint
        # Of all vertices: state of another region is not lost.
        restored = assign(manifest, checkpoint_vertices(graph), own=own, allow_non_restored=self._allow_non_restored)
        ids = {vertex.id for vertex in vertices}
        return {task: state for task, state in restored.items() if task.vertex in ids}
