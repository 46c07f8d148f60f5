"""Snapshots that earlier versions of penstock have written: read, restored and continued by this one."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.data.formats import program
from tests.data.formats.program import (
    DIRECTORY,
    content_of,
    graph_of,
    lay_input,
    results_in,
    snapshot_in,
    stores_of,
    working_directory,
)
from tests.data.formats.running import Running

from penstock.engine.checkpoint.storage import read_manifest

FORMATS = Path(program.__file__).parent
STORED = sorted(path.parent for path in FORMATS.glob("version-*/*/expected.json"))
each_stored = pytest.mark.parametrize("stored", STORED, ids=lambda path: f"{path.parent.name}-{path.name}")
"""Each snapshot."""
STORED_VERSIONS = list(dict.fromkeys(path.parent for path in STORED))
IN_TURN = [{"savepoint-heap", "checkpoint-rocksdb"}, {"checkpoint-heap", "savepoint-rocksdb"}]


def marks_of(stored: Path) -> list[pytest.MarkDecorator]:
    """Return the marks of the continuation of a snapshot."""
    version = STORED_VERSIONS.index(stored.parent)
    if version == len(STORED_VERSIONS) - 1:
        return []
    in_turn = [] if version == 0 else [pytest.mark.thorough]
    return in_turn if stored.name in IN_TURN[version % 2] else [pytest.mark.soak]


each_continued = pytest.mark.parametrize(
    "stored",
    [pytest.param(path, marks=marks_of(path)) for path in STORED],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
"""Each snapshot; in `make test` those of the newest version, and two of each other one, in turn; in `make test-fast`
those of the newest, and two of the oldest."""


def expected_of(stored: Path) -> dict[str, Any]:
    return json.loads((stored / "expected.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture(name="working_directory")
def _working_directory() -> Iterator[Path]:
    """The path that splits and committables in the snapshots name."""
    with working_directory() as directory:
        yield directory


@functools.cache
def results_of_whole_run(name: str) -> list[str]:
    """The output of the job if it is never interrupted, which is the same for snapshots of all versions."""
    with tempfile.TemporaryDirectory() as checkpoints:
        Running(graph_of(name, DIRECTORY), Path(checkpoints)).finish(1)
    found = results_in(DIRECTORY)
    shutil.rmtree(DIRECTORY)
    lay_input(DIRECTORY)
    return found


def without_early_firings(results: list[str]) -> list[str]:
    """Leave out output of a trigger whose firings depend on when watermarks arrive."""
    return [line for line in results if not line.startswith("continuous:")]


def test_there_are_snapshots_of_every_version() -> None:
    """A version whose snapshots are not tested may become unreadable, unnoticed."""
    from penstock.engine.checkpoint.manifest import VERSION

    found = {path.parent.name for path in STORED}
    assert found == {f"version-{version}" for version in range(1, VERSION + 1)}
    for version in found:
        assert {path.name for path in STORED if path.parent.name == version} == set(program.SNAPSHOTS)


@each_stored
def test_the_state_in_a_stored_snapshot_is_what_it_was(stored: Path) -> None:
    """State of an earlier version would be read as something else, or not at all."""
    assert content_of(snapshot_in(stored)) == expected_of(stored)["state"]


@each_continued
def test_a_job_continues_from_a_stored_snapshot(stored: Path, working_directory: Path, tmp_path: Path) -> None:
    """After an upgrade of penstock a job would lose its state, its positions, or its committables."""
    whole = results_of_whole_run(stored.name)
    expected = expected_of(stored)
    copied = shutil.copytree(stored, tmp_path / "job")
    for name, text in expected["ready"].items():
        (DIRECTORY / name).parent.mkdir(parents=True, exist_ok=True)
        (DIRECTORY / name).write_text(text)

    job = Running(
        graph_of(stored.name, DIRECTORY), copied, read_manifest(str(snapshot_in(copied))), stores_of(stored.name)
    )
    job.snapshot(4)
    job.complete(4)
    job.finish(5)

    found = sorted([*expected["published"], *results_in(DIRECTORY)])
    assert without_early_firings(found) == without_early_firings(whole)
