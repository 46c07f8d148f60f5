"""The names in pickles that are stored or sent: only public names that do not move."""

from __future__ import annotations

import importlib
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.data.formats.pickles import globals_of, pickles_of
from tests.data.formats.program import DIRECTORY, SNAPSHOTS, graph_of, snapshot_in, stores_of, working_directory
from tests.data.formats.running import Running

from penstock.common import stored
from penstock.common.errors import CheckpointError
from penstock.common.types import Row, RowKind

PUBLIC = {
    "penstock.common.stored.value",
    "penstock.common.time.Duration",
    "penstock.common.time.Instant",
    "penstock.common.types.Row",
    "penstock.common.types.restored_row",
}
"""Paths that snapshots hold: they stay forever. Describe an addition in docs/internals/formats.md."""


@pytest.fixture(name="working_directory")
def _working_directory() -> Iterator[None]:
    """The input and output of the job."""
    with working_directory():
        yield


def of_penstock(pickles: Iterator[tuple[str, bytes]]) -> dict[str, str]:
    """The names of penstock in pickles, and where one of them was found."""
    return {name: where for where, data in pickles for name in globals_of(data) if name.startswith("penstock")}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_what_is_stored_and_sent_names_public_paths_only(name: str, working_directory: None, tmp_path: Path) -> None:
    """After a module of penstock is moved, older snapshots could not be restored."""
    job = Running(graph_of(name, DIRECTORY), tmp_path, stores=stores_of(name))
    for checkpoint in (1, 2):
        job.step()
        job.snapshot(checkpoint)
        job.complete(checkpoint)
    if name.startswith("savepoint"):
        job.snapshot(3, str(tmp_path / "savepoint"))
    snapshot = tmp_path / "savepoint" if name.startswith("savepoint") else snapshot_in(tmp_path)

    found = of_penstock(pickles_of(snapshot))
    assert "penstock.common.stored.value" in found
    assert not {name: where for name, where in found.items() if name not in PUBLIC}
    sent = of_penstock(iter(job.sent))
    assert {kind for kind, _ in job.sent} == {"row", "commits", "splits"}
    assert not {name: where for name, where in sent.items() if name not in PUBLIC}


def test_every_file_has_its_checksum(working_directory: None, tmp_path: Path) -> None:
    """A copy of a savepoint could not be checked without reading all of its state."""
    job = Running(graph_of("savepoint-rocksdb", DIRECTORY), tmp_path, stores=stores_of("savepoint-rocksdb"))
    for _ in range(3):
        job.step()
    for manifest, files in (
        (job.snapshot(1), tmp_path),
        (job.snapshot(2, str(tmp_path / "savepoint")), tmp_path / "savepoint"),
    ):
        states = [part.state for operator in manifest.operators for part in operator.subtasks]
        lists = [state.lists for state in states if state.lists is not None and state.lists.path]
        handles = [*(file for state in states for file in state.keyed), *lists]
        assert len(handles) > 5
        for handle in handles:
            data = (files / handle.path).read_bytes()
            assert (len(data), zlib.crc32(data)) == (handle.bytes, handle.crc), handle.path


def test_the_search_finds_names_however_they_are_pickled() -> None:
    """The test above would pass whatever is stored."""
    values = [Path("x"), Row(1), Row.of_kind(RowKind.DELETE, 2), Path("y")]
    for protocol in range(6):
        found = globals_of(pickle.dumps(values, protocol) + pickle.dumps(RowKind.DELETE, protocol))
        assert {"pathlib.PosixPath", "penstock.common.types.Row", "penstock.common.types.RowKind"} <= found


@pytest.mark.parametrize("name", sorted(stored.MODULES))
def test_each_name_is_declared_where_it_is_looked_for(name: str) -> None:
    """The value could be written by a process that has imported its class, and not be read by one that has not."""
    kind = stored.type_stored_as(name)
    assert getattr(importlib.import_module(stored.MODULES[name]), kind.__qualname__) is kind
    assert stored.stored_name_of(kind) == name


def test_values_of_a_newer_penstock_are_refused() -> None:
    """Values would be restored as other values, or end in a traceback of Python."""
    with pytest.raises(CheckpointError, match=r"'time-window' of version 2.*by a newer one"):
        stored.value("time-window", 2, 1, 2)
    with pytest.raises(CheckpointError, match="'day-window', which this version of penstock does not know"):
        stored.value("day-window", 1)


def test_a_new_version_reads_the_fields_of_an_old_one() -> None:
    """The first change of a stored type would make all snapshots unreadable."""

    @stored.stored_as("test-length", 2, fields=lambda length: (length.millis,))
    class Length:
        def __init__(self, millis: int) -> None:
            self.millis = millis

        @staticmethod
        def of_version(version: int, seconds: int) -> Length:
            return Length(seconds * 1000)

    assert pickle.loads(pickle.dumps(Length(5))).millis == 5
    assert stored.value("test-length", 1, 7).millis == 7_000
