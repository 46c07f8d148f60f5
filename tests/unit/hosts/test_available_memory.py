"""The memory that a worker may still take, and a process that has little of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.hosts.memory_group import memory_group

from penstock.hosts.spark.worker.available_memory import available_memory

GB = 1 << 30
MEMINFO = "MemTotal: {} kB\nMemAvailable: {} kB\nSwapFree: {} kB\nHugePages_Total: 0\n"


def files(root: Path, **contents: str) -> Path:
    """Write files below `root`; `__` stands for a slash."""
    for name, content in contents.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def group(root: Path, folder: str, limit: str, usage: int, droppable: int, version: int) -> None:
    """Write the files of a cgroup."""
    path = root / "sys/fs/cgroup" / folder
    path.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for name, content in zip(names, (limit, usage), strict=True):
        (path / name).write_text(f"{content}\n")
    (path / "memory.stat").write_text(f"anon 5\n{'total_' if version == 1 else ''}inactive_file {droppable}\n")


def machine(root: Path, total: int, available: int, swap: int = 0) -> Path:
    """Write what the kernel shows of a machine."""
    return files(root, proc__meminfo=MEMINFO.format(total >> 10, available >> 10, swap >> 10))


def test_of_a_machine_what_is_free_with_swap_without_a_reserve(tmp_path: Path) -> None:
    """State would be refused although there is swap, or take the last page that others need."""
    assert available_memory(machine(tmp_path, 20 * GB, 5 * GB, 2 * GB)) == 6 * GB


def test_where_nothing_is_known_nothing_is_limited(tmp_path: Path) -> None:
    """Jobs on a Mac would be refused all memory."""
    assert available_memory(tmp_path) is None


@pytest.mark.parametrize("line", ["0::/job/worker", "4:memory:/job/worker"])
def test_of_a_container_what_its_tightest_group_has(tmp_path: Path, line: str) -> None:
    """A container would be killed although its machine has memory: its own limit counts, and those around it."""
    root = machine(tmp_path, 20 * GB, 10 * GB)
    version = 2 if line.startswith("0") else 1
    mount = "" if version == 2 else "memory/"
    files(root, proc__self__cgroup=f"9:cpu:/job\n{line}\n")
    group(root, f"{mount}job/worker", "max" if version == 2 else str((1 << 63) - 4096), 1 * GB, 0, version)
    assert available_memory(root) == 9 * GB
    group(root, f"{mount}job", str(4 * GB), 3 * GB, GB // 2, version)
    assert available_memory(root) == GB + GB // 2 - 4 * GB // 20
    group(root, f"{mount}job/worker", str(2 * GB), 1 * GB, 0, version)
    assert available_memory(root) == GB - 2 * GB // 20


def test_a_container_that_sees_the_path_of_its_machine(tmp_path: Path) -> None:
    """Docker without a namespace of cgroups mounts the container's group itself: its limit would not be found."""
    root = machine(tmp_path, 20 * GB, 10 * GB)
    files(root, proc__self__cgroup="4:memory:/docker/3f2a\n")
    group(root, "memory", str(2 * GB), 1 * GB, 0, 1)
    assert available_memory(root) == GB - 2 * GB // 20


def test_of_a_process_with_a_limit_of_its_own(tmp_path: Path) -> None:
    """Spark limits the address space of workers by `spark.executor.pyspark.memory`."""
    root = machine(tmp_path, 20 * GB, 10 * GB)
    pages = GB // os.sysconf("SC_PAGE_SIZE")
    files(root, proc__self__statm=f"{pages} 5 5\n")
    limits = "Limit Soft Limit Hard Limit Units\nMax address space     {}           unlimited      bytes\n"
    files(root, proc__self__limits=limits.format("unlimited"))
    assert available_memory(root) == 9 * GB
    files(root, proc__self__limits=limits.format(2 * GB))
    assert available_memory(root) == GB - 2 * GB // 20


GROWS = """
import os, resource, sys
if len(sys.argv) > 2:
    with open(sys.argv[2], "w") as group:
        group.write(str(os.getpid()))
import numpy, pyarrow
from penstock.common import Time, Types
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.memory_budget import MemoryBudget
from penstock.hosts.spark.worker.available_memory import available_memory
from penstock.testing import OperatorHarness

budget = {"none": MemoryBudget, "set": lambda: MemoryBudget(64 << 20),
          "available": lambda: MemoryBudget(None, available_memory)}[sys.argv[1]]()
kind = Types.ROW_NAMED(["key", "n"], [Types.LONG(), Types.LONG()])
windows = TumblingEventTimeWindows.of(Time.seconds(10))
operator = OperatorHarness(
    lambda stream: stream.as_columns(kind).key_by("key").window(windows).aggregate({"total": ("n", "sum")})
).operator
info = SubtaskInfo("job", 0, "task", 2, 4, 128)
task = TaskContext(info, lambda: 0, Budget(lambda: 0), KeyGroups(128), memory=budget)
operator.setup(OperatorContext(task, "Totals", uid="totals", counters=OperatorCounters("Totals")), None)
operator.open()

def push(first):
    keys = pyarrow.array(numpy.arange(first, first + (1 << 15)))
    batch = pyarrow.RecordBatch.from_arrays([keys, keys], schema=operator.columns_received.schema)
    operator.process(Columns(batch, numpy.full(1 << 15, 1)))

push(0)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + (512 << 20)
if len(sys.argv) < 3:
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for first in range(1 << 15, 1 << 25, 1 << 15):
    push(first)
print("had enough memory")
"""


def grown(budget: str, *group: str) -> subprocess.CompletedProcess[str]:
    """Run windows whose state grows, in a process with half a GB for it, or in a cgroup with a limit."""
    return subprocess.run([sys.executable, "-c", GROWS, budget, *group], capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space, and /proc, are those of Linux")
def test_a_process_that_would_run_out_of_memory_ends_with_the_name_of_the_operator() -> None:
    """A worker would end somewhere in NumPy, or be killed, and nothing would tell which operator to change."""
    unlimited = grown("none")
    assert unlimited.returncode != 0
    assert "MemoryError" in unlimited.stderr, "it ends for another reason"
    assert "Totals" not in unlimited.stderr
    for budget, why in [("set", "the slot may use 64.0 MB"), ("available", "are available on its machine")]:
        assert_names_the_operator(grown(budget), why)


@pytest.mark.skipif(sys.platform != "linux", reason="cgroups are those of Linux")
def test_a_slot_in_a_cgroup_ends_with_the_name_of_the_operator() -> None:
    """The kernel would kill the worker of a container, and nothing would tell which operator to change."""
    with memory_group(640 << 20) as group:
        killed = grown("none", str(group))
        assert killed.returncode == -signal.SIGKILL, f"it ends for another reason: {killed.stderr}"
        assert_names_the_operator(grown("set", str(group)), "the slot may use 64.0 MB")
        assert_names_the_operator(grown("available", str(group)), "are available on its machine or in its container")


def assert_names_the_operator(ended: subprocess.CompletedProcess[str], why: str) -> None:
    """Check how a process ended that had no memory."""
    assert ended.returncode == 1, ended.stderr
    (message,) = [line for line in ended.stderr.splitlines() if "MemoryBudgetError" in line]
    assert "operator 'Totals' (uid totals), subtask 3 of 4: no memory for its windows, which holds" in message
    assert why in message
    assert "state.backend.type to rocksdb" in message
