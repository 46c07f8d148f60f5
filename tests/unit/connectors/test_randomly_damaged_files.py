"""Files of all formats that are damaged somewhere: an error that names the file, or records."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.unit.connectors.damaged_files import RECORDS, SAMPLES, damaged, fault, read

DAMAGES = 40


@pytest.mark.parametrize("name", SAMPLES)
def test_damage_is_an_error_that_names_the_file(name: str, tmp_path: Path) -> None:
    """A job would fail with the bare error of a library, or read other records of an archive with checksums."""
    sample = SAMPLES[name]()
    path = tmp_path / name
    path.write_bytes(sample.data)
    whole = read(path, sample.format)
    assert len(whole) == len(RECORDS)
    for number in range(DAMAGES):
        # Of a stream of ORC with other bits pyarrow may crash: tests/unit/hosts/spark/test_crash_reports.py.
        choice = random.Random(f"{name} {number}")
        path.write_bytes(damaged(sample.data, choice, only_cut=name.endswith(".orc")))
        assert (number, fault(path, sample, whole)) == (number, "")
