"""A disk that forgets what was not synced: files without their content, directories without their names."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

Names = dict[str, tuple[int, bool]]
"""name -> inode, and whether it is a directory"""


class ForgetfulDisk:
    """Watches the syncs of this process. `lose_power` makes a directory into what would be left of it."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self._root = root.stat().st_ino
        self._files: dict[int, bytes] = {}
        self._directories: dict[int, Names] = {}
        self._fsync = os.fsync
        self.syncs = 0
        patch.setattr(os, "fsync", self._watched)

    def lose_power(self, left: Path) -> Path:
        """What is left, in a new directory `left`."""
        left.mkdir()
        self._copy(self._root, left)
        return left

    def _watched(self, descriptor: int) -> None:
        self._fsync(descriptor)
        self.syncs += 1
        status, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}")
        if stat.S_ISDIR(status.st_mode):
            # Names of files that were never synced stay, without their content.
            self._directories[status.st_ino] = {e.name: (e.inode(), e.is_dir()) for e in os.scandir(path)}
        else:
            self._files[status.st_ino] = path.read_bytes()

    def _copy(self, inode: int, target: Path) -> None:
        for name, (of_name, is_directory) in self._directories.get(inode, {}).items():
            if is_directory:
                (target / name).mkdir()
                self._copy(of_name, target / name)
            else:
                (target / name).write_bytes(self._files.get(of_name, b""))
