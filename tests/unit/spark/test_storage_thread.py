"""The thread of a job's storage operations, which must reach its last call."""

from __future__ import annotations

import threading
from pathlib import Path

from penstock.checkpoint.effects import DeleteFiles
from penstock.checkpoint.storage import DirectoryStorage
from penstock.jobmaster.events import StorageEnded
from penstock.spark.driver.storage_thread import StorageThread


def test_an_outcome_that_cannot_be_posted_does_not_end_it(tmp_path: Path) -> None:
    """A job would never be over, and nothing would say why."""
    posted: list[int] = []
    failures: list[BaseException] = []

    def post(event: StorageEnded) -> None:
        posted.append(event.operation)
        if event.operation == 1:
            raise OSError("too many open files")

    thread = StorageThread(DirectoryStorage(str(tmp_path / "job")), post, failures.append)
    over = threading.Event()
    for operation in (1, 2):
        thread.carry_out(DeleteFiles(operation, []))
    thread.end(over.set)
    assert over.wait(10)
    assert posted == [1, 2]
    assert [str(error) for error in failures] == ["too many open files"], "and the job fails with it"
