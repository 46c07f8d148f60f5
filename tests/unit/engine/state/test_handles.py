"""Handles: which files a state consists of, how large it is, and what a manifest stores of it."""

from __future__ import annotations

import msgspec

from penstock.engine.state.handles import (
    KeyedFile,
    ListInFile,
    ListsFile,
    OperatorState,
    Redistribution,
    Section,
    TableInFile,
    files_of,
    store_files_of,
)

COLUMNS = KeyedFile("names.parquet", 70, [], [], columns=True)
SECTIONS = [Section(0, 0, 5, 1), Section(0, 5, 6, 2)]
STATE = OperatorState(
    [
        KeyedFile("1.sst", 10, [TableInFile("count", full=True)], [], store_file="000001.sst", crc=5),
        KeyedFile("keyed", 20, [TableInFile("count", full=False, schema="value of Long")], SECTIONS),
    ],
    ListsFile(
        "lists",
        81,
        [
            ListInFile("splits", Redistribution.SPLIT, SECTIONS),
            ListInFile("names", Redistribution.UNION, SECTIONS, columns=COLUMNS),
        ],
    ),
)


def test_all_files_of_a_state_are_known() -> None:
    """The deletion of old checkpoints would delete a needed file, or leave one forever."""
    empty = OperatorState([], ListsFile("", 0, [ListInFile("splits", Redistribution.SPLIT, [])]))
    assert files_of([STATE, empty, OperatorState()]) == {"1.sst", "keyed", "lists", "names.parquet"}
    assert files_of([]) == set()


def test_a_list_is_as_large_as_its_items_or_its_table() -> None:
    """The sizes that `penstock checkpoints` shows would be those of handles, not of state."""
    assert STATE.lists is not None
    assert [one.bytes for one in STATE.lists.lists] == [11, 70]


def test_files_of_a_store_are_distinguished_from_others() -> None:
    """RocksDB would be opened with a file of penstock, or RocksDB's files be read as penstock's."""
    assert [file.path for file in store_files_of(STATE.keyed)] == ["1.sst"]


def test_a_manifest_keeps_all_that_a_handle_has() -> None:
    """A restart would look for other sections of a file, or read entries of another unit as those of keys."""
    stored = msgspec.json.encode(STATE)
    assert msgspec.json.decode(stored, type=OperatorState) == STATE
    assert b'"database":"000001.sst"' in stored, "the name in manifests, whatever the field is called here"
    short = b'{"keyed": [{"path": "f", "bytes": 1, "tables": [["t", true]], "sections": [[3, 0, 1, 9]]}]}'
    (file,) = msgspec.json.decode(short, type=OperatorState).keyed
    assert (file.tables[0].unit, file.crc, file.store_file, file.sections[0].group) == ("key", None, "", 3)
