"""How much more memory a worker may take: of the machine, of its container (cgroup), of its own limit."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

_RESERVED_PART = 20
"""A twentieth stays free, for all that is not accounted: buffers, snapshots, users' objects."""
_LIMIT_MAX = 1 << 60
"""Version 1 of cgroups shows a larger number where there is no limit."""
_ADDRESS_SPACE = "Max address space"


def available_memory(root: Path = Path("/")) -> int | None:
    """Return how many bytes this process may still take, without a reserve of a twentieth; None: not known.

    It is the least of what the machine has (with swap), what is left in each of the process's cgroups, and what is
    left of its limit of address space, which Spark sets to `spark.executor.pyspark.memory`. Pages of
    files that the kernel can drop count as available. Linux only. `root`: where /proc and /sys are. Source: proc(5);
    the kernel's docs of memory in cgroup v1 and v2.
    """
    found = [*_of_machine(root), *_of_process(root), *_of_cgroups(root)]
    return min(found, default=None)


def _of_machine(root: Path) -> Iterator[int]:
    try:
        fields = dict(line.split(":", 1) for line in (root / "proc/meminfo").read_text().splitlines())
        total, available, swap = (
            int(fields[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable", "SwapFree")
        )
    except (OSError, KeyError, ValueError, IndexError):
        return
    yield available + swap - total // _RESERVED_PART


def _of_process(root: Path) -> Iterator[int]:
    try:
        limits = (root / "proc/self/limits").read_text().splitlines()
        limit = int(next(line for line in limits if line.startswith(_ADDRESS_SPACE))[len(_ADDRESS_SPACE) :].split()[0])
        pages = int((root / "proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, StopIteration):
        # "unlimited", for example.
        return
    yield limit - pages * resource.getpagesize() - limit // _RESERVED_PART


def _of_cgroups(root: Path) -> Iterator[int]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, files = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = mount / path.lstrip("/")
        # In a container the path may be that of the machine: then the mount itself is the container's group.
        for folder in (group, *group.parents):
            yield from _of_group(folder, *files)
            if folder == mount:
                break


def _of_group(folder: Path, limit_file: str, usage_file: str, droppable: str) -> Iterator[int]:
    try:
        limit = int((folder / limit_file).read_text())
        usage = int((folder / usage_file).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        free = limit - usage + int(stat.get(droppable, 0))
    except (OSError, ValueError):
        # "max", or no such group.
        return
    if limit < _LIMIT_MAX:
        yield free - limit // _RESERVED_PART
