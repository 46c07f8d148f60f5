"""A savepoint or checkpoint where it lies: its manifest, its files, and what it says of its operators."""

from __future__ import annotations

from pathlib import Path

from penstock.checkpoint.manifest import OperatorPart
from penstock.checkpoint.storage import METADATA, absolute, files_directory, read_manifest
from penstock.common.errors import StateNotFoundError
from penstock.state_processor.snapshot_files import SnapshotFiles


class SnapshotOnDisk:
    """Reads the manifest of `path`: a savepoint, or one checkpoint of a job. Raises CheckpointError if it is none."""

    def __init__(self, path: str | Path) -> None:
        self.path = absolute(path).removesuffix(f"/{METADATA}")
        self.manifest = read_manifest(self.path)
        self.root = files_directory(self.path, self.manifest)
        self.files = SnapshotFiles(self.root)

    def __str__(self) -> str:
        kind = "savepoint" if self.manifest.savepoint else "checkpoint"
        return f"the {kind} {self.path}"

    def part(self, uid: str) -> OperatorPart:
        """The operator of that uid. Raises StateNotFoundError naming those that there are."""
        part = self.manifest.operator(uid)
        if part is None:
            there = ", ".join(f"'{part.state_id}' ({part.name})" for part in self.manifest.operators)
            raise StateNotFoundError(f"{self} has no operator '{uid}'. It has {there or 'none at all'}")
        return part
