"""The partitions of a DataFrame as splits: which subtask reads which file of Spark's, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.common.errors import SourceError
from penstock.engine.plan.static_splits import assign_statically
from penstock.hosts.spark.frames.source import PartitionsEnumerator


class Copied:
    """Files as Spark writes them, of which partition 1 has none, and partition 2 has two."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_cancelled = False
        for name in ("00002-b-c001", "00000-b-c000", "00003-b-c000", "00002-b-c000"):
            (folder / f"part-{name}.snappy.parquet").write_bytes(b"PAR1")
        (folder / "_SUCCESS").touch()

    def make(self, caller: object) -> str:
        return str(self.folder)

    def cancel(self, caller: object) -> None:
        self.is_cancelled = True

    def create_enumerator(self, context: Any) -> PartitionsEnumerator:
        return PartitionsEnumerator(context, self)  # type: ignore[arg-type]


def files_by_subtask(source: Any, parallelism: int) -> list[list[str]]:
    splits = assign_statically(source, parallelism, now_ms=0)
    return [[Path(split.path).name.split(".")[0] for split in of_subtask] for of_subtask in splits]


def test_each_subtask_reads_its_partition_in_order(tmp_path: Path) -> None:
    """Ranges would be mixed, and sorted rows out of order."""
    source = Copied(tmp_path)
    first, second, *others = files_by_subtask(source, 4)
    assert (first, second) == (["part-00000-b-c000"], [])
    assert others == [["part-00002-b-c000", "part-00002-b-c001"], ["part-00003-b-c000"]]
    assert source.is_cancelled


def test_no_partition_is_left(tmp_path: Path) -> None:
    """The rows of a partition for which there is no subtask would be lost."""
    assert sum(map(len, files_by_subtask(Copied(tmp_path), 2))) == 4


def test_a_computation_that_fails_ends_the_job(tmp_path: Path) -> None:
    """A job would wait for files forever."""
    source = Copied(tmp_path)
    source.make = failing  # type: ignore[method-assign]
    with pytest.raises(Exception, match="no disk"):
        assign_statically(source, 2, now_ms=0)  # type: ignore[arg-type]


def failing(caller: object) -> str:
    raise SourceError("no disk")
