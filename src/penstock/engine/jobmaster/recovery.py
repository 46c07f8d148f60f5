"""Choose the checkpoint from which the next attempt of a region is restored."""

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
    """Restore from the job's newest checkpoint or committed savepoint, otherwise from `origin`, otherwise start empty.

    `origin_path`: path of `origin`. `directory`: directory of the job's own checkpoints.
    """

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        completed: CompletedCheckpoints,
        settings: JobSettings,
        *,
        origin: Manifest | None,
        origin_path: str = "",
        directory: str = "",
    ) -> None:
        self._coordinator = coordinator
        self._completed = completed
        self._origin = origin
        self._allow_non_restored = settings.allow_non_restored_state
        self._origin_path = origin_path
        self._directory = directory

    @property
    def manifest(self) -> Manifest | None:
        """The checkpoint from which the next attempt starts, or None."""
        return self._completed.newest or self._origin

    @property
    def path(self) -> str:
        """The path of `manifest`; empty if it is a checkpoint in the job's own directory."""
        manifest = self.manifest
        if manifest is None or manifest is self._origin:
            return self._origin_path if manifest is not None else ""
        saved = (report for report in self._coordinator.history.savepoints if report.is_completed)
        return next((report.savepoint for report in saved if report.checkpoint_id == manifest.checkpoint_id), "")

    @property
    def full_path(self) -> str:
        """The full path of `manifest`; empty if there is none."""
        manifest = self.manifest
        return self.path or (f"{self._directory}/chk-{manifest.checkpoint_id}" if manifest is not None else "")

    def enumerator_states(self, sources: dict[int, str]) -> dict[int, Any]:
        """Return the restored states of split enumerators, by vertex. `sources`: state ids of the source vertices."""
        manifest = self.manifest
        if manifest is None:
            return {}
        by_id = enumerator_states(manifest)
        return {vertex: by_id[state_id] for vertex, state_id in sources.items() if state_id in by_id}

    def restore(self, vertices: Sequence[CheckpointVertex], graph: JobGraph) -> Restored:
        """Return the restored state of the tasks of `vertices`, and commit their sinks' committables again.

        `graph`: the plan of the whole job. Raises CheckpointError.
        """
        manifest = self.manifest
        if manifest is None:
            return {}
        # A commit in progress when a worker or the driver died may not have succeeded.
        self._coordinator.commit_again(manifest, vertices)
        # Another job or the user may remove other files at any time, so checkpoints of this job must not refer to them.
        owns_files = manifest is not self._origin and not manifest.savepoint
        # For all vertices, so that state of another region does not count as left over.
        restored = assign(
            manifest, checkpoint_vertices(graph), owns_files=owns_files, allow_non_restored=self._allow_non_restored
        )
        ids = {vertex.id for vertex in vertices}
        return {task: state for task, state in restored.items() if task.vertex in ids}
