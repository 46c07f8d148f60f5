"""Damage in everything that a job stores is detected: a small part of `python -m tests.damage`."""

from __future__ import annotations

import pytest
from tests.damage import WAYS, Damages, damage, table

KINDS = {
    "keyed state",
    "keyed state, Parquet",
    "list, Parquet",
    "lists",
    "manifest",
    "RocksDB, other",
    "RocksDB, table",
}


@pytest.fixture(name="damages", scope="module")
def _damages(tmp_path_factory: pytest.TempPathFactory) -> Damages:
    return damage(tmp_path_factory.mktemp("damage"), count=8 * len(KINDS) * len(WAYS), seed=13)


def test_every_kind_of_file_is_damaged_in_every_way(damages: Damages) -> None:
    """A new kind of file would not be tested."""
    assert {kind for kind, _, _ in damages.counts} == KINDS
    assert {way for _, way, outcome in damages.counts if outcome == "told"} == set(WAYS)


def test_every_damage_is_told(damages: Damages) -> None:
    """A job would continue with other state, or fail with an error that does not name the file."""
    assert damages.stories == [], table(damages.counts)
