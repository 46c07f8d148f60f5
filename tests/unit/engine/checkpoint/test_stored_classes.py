"""Snapshots with keys, records and state of users' classes, from before and after values were stored by name."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.data.formats import classes
from tests.data.formats.program import content_of, results_in, snapshot_in, working_directory

from penstock.engine.checkpoint.storage import read_manifest
from penstock.engine.state.handles import Redistribution

FORMATS = Path(classes.__file__).parent
FOLDERS = ("classes-by-position", "classes-by-name")
STORED = [FORMATS / folder / name for folder in FOLDERS for name in classes.SNAPSHOTS]
each_stored = pytest.mark.parametrize("stored", STORED, ids=lambda path: f"{path.parent.name}-{path.name}")
IN_TURN = [{"savepoint-heap", "unaligned-rocksdb"}, {"savepoint-rocksdb", "unaligned-heap"}]
each_continued = pytest.mark.parametrize(
    "stored",
    [
        pytest.param(path, marks=[] if path.name in IN_TURN[FOLDERS.index(path.parent.name)] else [pytest.mark.soak])
        for path in STORED
    ],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
"""Each snapshot; in `make test` each pair of folder, kind of snapshot and backend once."""


def expected_of(stored: Path) -> dict[str, Any]:
    return json.loads((stored / "expected.json").read_text())  # type: ignore[no-any-return]


@functools.cache
def results_of_whole_run() -> list[str]:
    """The output of the job if it is never interrupted."""
    with working_directory() as directory, tempfile.TemporaryDirectory() as checkpoints:
        classes.lay_numbers(directory)
        classes.running("heap", directory, Path(checkpoints)).finish(1)
        return results_in(directory)


@each_stored
def test_values_of_classes_are_what_they_were(stored: Path) -> None:
    """A value of one of the kinds would be read with its fields shifted, as another member, or not at all."""
    assert content_of(snapshot_in(stored)) == expected_of(stored)["state"]


@each_continued
def test_a_job_goes_on_with_its_classes(stored: Path, tmp_path: Path) -> None:
    """After an upgrade of penstock the state of such keys, or records in flight, would be lost or changed."""
    whole, expected = results_of_whole_run(), expected_of(stored)
    copied = shutil.copytree(stored, tmp_path / "job")
    with working_directory() as directory:
        classes.lay_numbers(directory)
        for name, text in expected["ready"].items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        job = classes.running(stored.name, directory, copied, read_manifest(str(snapshot_in(copied))))
        job.snapshot(3)
        job.complete(3)
        job.finish(4)
        found = results_in(directory)
    assert sorted([*expected["published"], *found]) == whole


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_stored_snapshots_hold_records_in_flight(folder: str) -> None:
    """The tests above would not restore records that a barrier had overtaken."""
    for name in classes.SNAPSHOTS:
        manifest = read_manifest(str(snapshot_in(FORMATS / folder / name)))
        parts = [part.state.lists for operator in manifest.operators for part in operator.subtasks]
        in_flight = [
            one for lists in parts if lists for one in lists.lists if one.redistribution is Redistribution.IN_FLIGHT
        ]
        assert bool(in_flight) is name.startswith("unaligned")
