"""A stored savepoint or checkpoint: its manifest, files, and operators."""

from __future__ import annotations

from pathlib import Path

from penstock.common.errors import StateNotFoundError
from penstock.engine.checkpoint.manifest import OperatorPart
from penstock.engine.checkpoint.storage import METADATA, absolute, files_directory, read_manifest
from penstock.engine.snapshots.snapshot_files import SnapshotFiles


class SnapshotOnDisk:
    """Reads the manifest of `path`: a savepoint, or one checkpoint of a job.

    `stores_kept`: how many of its databases stay open once they were read. Raises CheckpointError if there is none.
    """

    def __init__(self, path: str | Path, stores_kept: int = 1) -> None:
        self.path = absolute(path).removesuffix(f"/{METADATA}")
        self.manifest = read_manifest(self.path)
        self.root = files_directory(self.path, self.manifest)
        self.files = SnapshotFiles(self.root, stores_kept)

    def __str__(self) -> str:
        kind = "savepoint" if self.manifest.savepoint else "checkpoint"
        return f"the {kind} {self.path}"

    def part(self, uid: str) -> OperatorPart:
        """Return the operator of that uid. Raises StateNotFoundError listing the existing ones."""
        part = self.manifest.operator(uid)
        if part is None:
            there = ", ".join(f"'{part.state_id}' ({part.name})" for part in self.manifest.operators)
            raise StateNotFoundError(f"{self} has no operator '{uid}'. It has {there or 'none'}")
        return part
