"""A cgroup with a limit of memory, inside that of the tests, for processes that shall have little of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """Yield the file of a new group to which a process writes its id. Skip the test where none can be made.

    The group is below that of this process, so limits around it hold as well. cgroup v2, or v1.
    """
    group, why = _new_group(limit_bytes)
    if group is None:
        pytest.skip(f"needs a cgroup with a limit of memory, which cannot be made here: {why}")
    try:
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def _new_group(limit_bytes: int) -> tuple[Path | None, str]:
    own, limits = _own_group()
    if own is None:
        return None, "this process is in no group of a memory controller"
    group = own / f"penstock-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        return None, str(error)
    try:
        if not (group / limits[0]).exists():
            # cgroup v2 has the files of a controller in groups whose parent distributes it.
            (own / "cgroup.subtree_control").write_text("+memory")
        (group / limits[0]).write_text(str(limit_bytes))
        swap = group / limits[1]
        if swap.exists():
            swap.write_text("0" if limits[1] == "memory.swap.max" else str(limit_bytes))
    except OSError as error:
        group.rmdir()
        return None, str(error)
    return group, ""


def _own_group() -> tuple[Path | None, tuple[str, str]]:
    """Return the memory group of this process, and the files of its limits of memory and of swap."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None, ("", "")
    groups = {controllers: path.lstrip("/") for _, controllers, path in (line.split(":", 2) for line in lines)}
    for controllers, path in groups.items():
        if "memory" in controllers.split(","):
            return ROOT / "memory" / path, ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    own = ROOT / groups.get("", "")
    is_there = "" in groups and (own / "cgroup.procs").exists()
    return (own if is_there else None), ("memory.max", "memory.swap.max")
