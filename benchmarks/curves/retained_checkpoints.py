"""Retained checkpoints: the driver's CPU time for each checkpoint that completes, by the number that is retained.

The part of the driver that concerns retention, with the storage in a folder: what the checkpoint adds, what it makes
superfluous, its entry in the job's record, and what the dashboard shows. Four subtasks have chains of up to ten files.

    python -m benchmarks.curves.retained_checkpoints
"""

from __future__ import annotations

import tempfile

from benchmarks.curves.curve import Figures, Stopwatch, run
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.engine.checkpoint.effects import StorageEffect, StoreManifest
from penstock.engine.checkpoint.job_record import JobRecord
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart
from penstock.engine.checkpoint.storage import DirectoryStorage, record_in
from penstock.engine.checkpoint.storage_requests import StorageRequests, carry_out
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.state.handles import KeyedFile, OperatorState

_MEASURED = 300
_SUBTASKS = 4
_CHAIN = 10


def measure(retained: int) -> Figures:
    """Complete checkpoints until as many are retained, then measure some more."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        effects: list[StorageEffect] = []
        requests = StorageRequests(effects.append)
        completed = CompletedCheckpoints(requests, retained)
        storage = DirectoryStorage(directory, JobRecord(record_in(directory), "a job"))
        watch = Stopwatch()
        for number in range(1, retained + _MEASURED + 1):
            if number == retained + 1:
                watch.lap_us()
            _complete(number, storage, requests, completed, effects)
        return {"CPU us a checkpoint": watch.lap_us() / _MEASURED}


def _complete(
    number: int,
    storage: DirectoryStorage,
    requests: StorageRequests,
    completed: CompletedCheckpoints,
    effects: list[StorageEffect],
) -> None:
    parts = []
    first = number - number % _CHAIN
    for subtask in range(_SUBTASKS):
        files = [f"shared/{one}-{subtask}" for one in range(first, number + 1)]
        completed.acknowledged(SubtaskId(0, subtask), set(files))
        parts.append(SubtaskPart(subtask, OperatorState([KeyedFile(path, 1, [], []) for path in files])))
    manifest = Manifest("job", "a job", number, 1, 0, 0, [OperatorPart("op", "an operator", _SUBTASKS, 128, parts)], [])
    requests.request(StoreManifest(requests.next_number(), manifest, CheckpointOptions()))
    _carry_out(effects, storage, requests)
    completed.add(manifest)
    completed.delete_subsumed([])
    _carry_out(effects, storage, requests)
    assert number in completed.numbers


def _carry_out(effects: list[StorageEffect], storage: DirectoryStorage, requests: StorageRequests) -> None:
    while effects:
        effect = effects.pop(0)
        carry_out(effect, storage)
        requests.ended(effect.operation, "", 0, False)


if __name__ == "__main__":
    run(__doc__, (1, 10, 100, 1_000), measure)
