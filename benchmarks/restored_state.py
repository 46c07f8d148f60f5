"""Restoring state in RocksDB: the same parallelism, more, and fewer subtasks. Item 24.

Without Spark: each subtask is a process, as a slot is. State of a given size is written at one parallelism, with a
full checkpoint and, if asked for, one of the changes since; then the subtasks of another parallelism restore it,
all at once. `to_<n>_s` is the time of the slowest one, `to_<n>_cpu_s` its CPU time, `to_<n>_mb_per_s` relates the
former to the size of the checkpoint, and `copy_s` is the time in which this disk copies the checkpoint's files.

    python -m benchmarks.restored_state --state-mb 2000 --to 2 4 1
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measurement import tell
from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.restore import assign
from penstock.engine.checkpoint.storage import DirectoryStorage
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.restore import KeyedChain, restore_operator
from penstock.engine.runtime.task.snapshot import OperatorSnapshot
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.handles import OperatorState, RestoredOperator
from penstock.engine.state.key_groups import KeyGroups, key_group_range
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.tables import Table
from penstock.engine.stores.rocksdb import rocksdb_stores
from penstock.state_processor.new_tables import finished

_GROUPS = 128
_VALUE = ValueStateDescriptor("value")
_MAINTAINED_EACH = 10_000
_OPERATOR = "keep"


class Keeper(Operator):
    """An operator that has keyed state, and nothing else."""

    def __init__(self, directory: Path) -> None:
        super().__init__(_OPERATOR)
        stores = rocksdb_stores(RocksDBSettings(str(directory), 64 << 20, 50_000))
        self.backend = RocksDBKeyedStateBackend(lambda: 0, stores, KeyGroups(_GROUPS))
        self.value = self.backend.state(_VALUE)

    def keyed_tables(self) -> dict[str, Table]:
        return self.backend.tables

    def keyed_backend(self) -> RocksDBKeyedStateBackend:
        return self.backend

    def restored_table(self, name: str, schema: str) -> Table:
        return self.backend.restored_table(name, schema)

    def lists(self) -> list[NamedList]:
        return []

    def restore_lists(self, lists: list[NamedList]) -> None:
        pass

    def put(self, keys: range, value_bytes: int, groups: range, key_groups: KeyGroups) -> None:
        """Give each key that is in these groups a new value."""
        for position, key in enumerate(keys):
            if key_groups[key] in groups:
                self.backend.key = key
                self.value.update(os.urandom(value_bytes))
            if position % _MAINTAINED_EACH == 0:
                self.backend.maintain(10 * _MAINTAINED_EACH)


def write(arguments: argparse.Namespace, directory: Path, subtask: int, answers: Any) -> None:
    """Write the state of one subtask; answers with its files."""
    keeper, storage, chain = Keeper(directory / "local"), DirectoryStorage(str(directory / "job")), KeyedChain()
    key_groups = KeyGroups(_GROUPS)
    groups = key_group_range(subtask, _GROUPS, arguments.parallelism)
    keys = arguments.state_mb * 1_000_000 // arguments.value_bytes
    changed = range(int(keys * arguments.changed_percent / 100))
    for checkpoint, written in enumerate([range(keys)] + [changed] * bool(changed), 1):
        keeper.put(written, arguments.value_bytes, groups, key_groups)
        snapshot = OperatorSnapshot(_OPERATOR, keeper, chain, options=CheckpointOptions(full=checkpoint == 1))
        state = finished(snapshot.write(f"{checkpoint}-{subtask}", storage, key_groups))
        snapshot.release()
        files = snapshot.written(state.keyed)
    answers.put((subtask, files))
    keeper.backend.close()


def restore(directory: Path, given: RestoredOperator, groups: range, answers: Any) -> None:
    """Restore the state of one subtask; answers with the seconds that it took, and those of CPU."""
    keeper, storage = Keeper(directory / "local"), DirectoryStorage(str(directory / "job"))
    began, began_cpu = time.monotonic(), time.process_time()
    restore_operator(keeper, given, KeyedChain(), groups=groups, max_parallelism=_GROUPS, storage=storage, in_flight=[])
    took = time.monotonic() - began, time.process_time() - began_cpu
    missing = next((key for key in range(1_000) if KeyGroups(_GROUPS)[key] in groups and not has(keeper, key)), None)
    assert missing is None, f"{missing} is lost"
    answers.put(took)
    keeper.backend.close()


def has(keeper: Keeper, key: int) -> bool:
    """Whether a key has a value."""
    keeper.backend.key = key
    return keeper.value.value() is not None


def at_once(act: Any, calls: list[tuple[Any, ...]]) -> list[Any]:
    """Call `act` in a process for each of `calls`; returns what they answer."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    processes = [context.Process(target=act, args=(*call, answers)) for call in calls]
    for process in processes:
        process.start()
    found = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    return found


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--state-mb", type=int, default=500)
    parser.add_argument("--value-bytes", type=int, default=1_000)
    parser.add_argument("--changed-percent", type=float, default=0, help="of the keys, after the full checkpoint")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--to", type=int, nargs="+", default=[2, 4, 1])
    parser.add_argument("--directory", help="for the state and its checkpoint; default: a temporary one")
    arguments = parser.parse_args()
    told: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.directory) as name:
        directory = Path(name)
        began = time.monotonic()
        parts = at_once(write, [(arguments, directory, subtask) for subtask in range(arguments.parallelism)])
        told["write_s"] = time.monotonic() - began
        subtasks = [SubtaskPart(subtask, OperatorState(files)) for subtask, files in sorted(parts)]
        operator = OperatorPart(_OPERATOR, _OPERATOR, arguments.parallelism, _GROUPS, subtasks)
        manifest = Manifest("job", "a job", 1, 0, 0, 0, [operator], [])
        size = sum(path.stat().st_size for path in (directory / "job").rglob("*") if path.is_file()) / 1e6
        told["checkpoint_mb"] = size
        os.sync()
        began = time.monotonic()
        shutil.copytree(directory / "job", directory / "copy")
        told["copy_s"] = time.monotonic() - began
        shutil.rmtree(directory / "copy")
        for parallelism in arguments.to:
            vertex = CheckpointVertex(0, _OPERATOR, parallelism, _GROUPS, [(_OPERATOR, _OPERATOR)], False)
            assigned = assign(manifest, [vertex], owns_files=True, allow_non_restored=False)
            calls = [
                (directory, assigned[SubtaskId(0, subtask)][_OPERATOR], key_group_range(subtask, _GROUPS, parallelism))
                for subtask in range(parallelism)
            ]
            took = at_once(restore, calls)
            told[f"to_{parallelism}_s"] = max(seconds for seconds, _ in took)
            told[f"to_{parallelism}_cpu_s"] = max(cpu for _, cpu in took)
            told[f"to_{parallelism}_mb_per_s"] = size / told[f"to_{parallelism}_s"]
    tell(told)


if __name__ == "__main__":
    main()
