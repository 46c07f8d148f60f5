"""Sinks that users extend, in jobs: transactions, a write-ahead log, and workers that are killed between the two."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.spark.jobs import STREAMING, environment, in_both_modes
from tests.spark.test_lost_workers import killed, killing
from tests.spark.test_recovery import Slowly, settings

from penstock.common import WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.connectors.base import CheckpointCommitter, TwoPhaseCommitSink, WriteAheadSink

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()


class Transactions(TwoPhaseCommitSink):
    """A transaction is a file, and visible when it is called `.done`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin_transaction(self) -> str:
        self.values: list[int] = []
        return uuid.uuid4().hex

    def invoke(self, transaction: str, value: int, context: object) -> None:
        self.values.append(value)

    def pre_commit(self, transaction: str) -> None:
        (self.folder / f"{transaction}.ready").write_text(json.dumps(self.values))

    def commit(self, transaction: str) -> None:
        if (self.folder / f"{transaction}.ready").exists():
            (self.folder / f"{transaction}.ready").rename(self.folder / f"{transaction}.done")

    def abort(self, transaction: str) -> None:
        (self.folder / f"{transaction}.ready").unlink(missing_ok=True)


class Batches(WriteAheadSink):
    """A file for each batch; the same batch twice is the same file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Marks(folder))
        self.folder = folder

    def send_values(self, values: Sequence[int], checkpoint_id: int, timestamp: int) -> bool:
        (self.folder / f"{checkpoint_id}-{min(values)}.done").write_text(json.dumps(values))
        return True


class Marks(CheckpointCommitter):
    """An empty file for each batch that was sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def commit_checkpoint(self, log_id: str, checkpoint_id: int) -> None:
        (self.folder / f"{log_id}-{checkpoint_id}.mark").touch()

    def is_checkpoint_committed(self, log_id: str, checkpoint_id: int) -> bool:
        return (self.folder / f"{log_id}-{checkpoint_id}.mark").exists()


def made(tmp_path: Path, *names: str) -> list[Path]:
    folders = [tmp_path / name for name in names]
    for folder in folders:
        folder.mkdir()
    return folders


def seen(folder: Path) -> list[int]:
    return sorted(value for path in folder.glob("*.done") for value in json.loads(path.read_text()))


def test_workers_killed_between_two_commits(tmp_path: Path) -> None:
    """Records would be in the target twice or not at all, and there is no way to find out which."""
    deaths, transactions, batches = made(tmp_path, "deaths", "transactions", "batches")
    env = environment(STREAMING, 2, settings(tmp_path))
    numbers = env.from_source(NumberSequenceSource(0, 9_999), NONE, "numbers").map(Slowly())
    numbers = numbers.map(killing(deaths, "source", 7_000))
    numbers.sink_to(Transactions(transactions))
    numbers.sink_to(Batches(batches))
    env.execute()

    assert killed(deaths) == ["source"]
    assert seen(transactions) == [*range(10_000)]
    assert seen(batches) == [*range(10_000)]


@in_both_modes
def test_without_checkpoints(mode: RuntimeExecutionMode, tmp_path: Path) -> None:
    """Values would wait for a checkpoint that never comes."""
    transactions, batches = made(tmp_path, "transactions", "batches")
    env = environment(mode, 2)
    numbers = env.from_source(NumberSequenceSource(0, 999), NONE, "numbers")
    numbers.sink_to(Transactions(transactions))
    numbers.sink_to(Batches(batches))
    env.execute()

    assert seen(transactions) == seen(batches) == [*range(1_000)]


class FailsToCommitOnce(Transactions):
    """Its first commit fails, and leaves a mark."""

    def commit(self, transaction: str) -> None:
        mark = self.folder / "failed"
        if not mark.exists():
            mark.touch()
            raise OSError("the target is away")
        super().commit(transaction)


def test_a_commit_that_fails_is_done_again(tmp_path: Path) -> None:
    """A target that is away for a moment would fail the job for good, or take records out of its results."""
    (transactions,) = made(tmp_path, "transactions")
    env = environment(STREAMING, 2, settings(tmp_path))
    env.from_source(NumberSequenceSource(0, 9_999), NONE, "numbers").map(Slowly()).sink_to(
        FailsToCommitOnce(transactions)
    )
    env.execute()

    assert (transactions / "failed").exists()
    assert seen(transactions) == [*range(10_000)]
    assert not [*transactions.glob("*.ready")], "what was never committed has been aborted"
