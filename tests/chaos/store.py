"""The disk of one run: a small file system of its own, which can be full, hang, refuse to change a directory, and lose
what was not synced.

It needs root, loop devices and ext4. Without them a directory takes its place, and such faults are not drawn.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

SIZE = 128 << 20
_INODES = 100_000
_OPTIONS = "loop,commit=60,noauto_da_alloc"
"""Nothing reaches the disk that nobody syncs: no transaction for a minute, and no help for those who only rename."""
_SHUTDOWN, _AT_ONCE = 0x8004587D, struct.pack("I", 2)
"""ext4's EXT4_IOC_SHUTDOWN, with EXT4_GOING_FLAGS_NOLOGFLUSH: as if the power had failed."""
_FREE_WITHIN_S = 20


def is_possible(folder: Path) -> bool:
    """Whether this machine permits it."""
    try:
        with mounted(folder):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A file system below a directory, as long as the context lasts. Raises CalledProcessError."""
    image, path = folder / "disk.img", folder / "disk"
    path.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(SIZE)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-N", str(_INODES), str(image))
    _run("mount", "-o", _OPTIONS, str(image), str(path))
    try:
        yield path
    finally:
        _run("umount", "--lazy", str(path))
        image.unlink()
        path.rmdir()


class Store:
    """The file system at `path`, that of `mounted`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """No byte is free."""
        ballast = self.path / "ballast"
        try:
            with ballast.open("wb") as file:
                # The last kilobytes, too: what others free meanwhile they may use.
                for size in (1 << 20, 1 << 12):
                    with contextlib.suppress(OSError):
                        while True:
                            os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
            yield
        finally:
            ballast.unlink(missing_ok=True)

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Whoever writes waits."""
        _run("fsfreeze", "--freeze", str(self.path))
        try:
            yield
        finally:
            _run("fsfreeze", "--unfreeze", str(self.path))

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """No file can be created, renamed or removed: "operation not permitted"."""
        folders = [path for path, _, _ in os.walk(self.path) if Path(path).name != "lost+found"]

        def change(flag: str) -> None:
            # One of them may be gone: those of the others are changed nevertheless.
            subprocess.run(["chattr", flag, *folders], capture_output=True, check=False)

        try:
            change("+i")
            yield
        finally:
            change("-i")

    @contextlib.contextmanager
    def without_power(self) -> Iterator[None]:
        """No byte reaches the disk any more; afterwards it is as it was. Until then all that use it must have ended."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _SHUTDOWN, _AT_ONCE)
        finally:
            os.close(folder)
        yield
        deadline = time.monotonic() + _FREE_WITHIN_S
        while subprocess.run(["umount", str(self.path)], capture_output=True, check=False).returncode:
            # A process that was killed is about to end.
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.path} is still used")
            time.sleep(0.1)
        _run("mount", "-o", _OPTIONS, str(self.path.with_suffix(".img")), str(self.path))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
