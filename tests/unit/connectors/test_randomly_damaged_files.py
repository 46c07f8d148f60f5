"""Files of all formats that are damaged somewhere: an error that names the file, or records."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.unit.connectors.damaged_files import RECORDS, Sample, damaged, fault, read, samples

DAMAGES = 40


@pytest.mark.parametrize("sample", list(samples()), ids=lambda sample: sample.name)
def test_damage_is_an_error_that_names_the_file(sample: Sample, tmp_path: Path) -> None:
    """A job would fail with the bare error of a library, or read other records of an archive with checksums."""
    path = tmp_path / sample.name
    path.write_bytes(sample.data)
    whole = read(path, sample.format)
    assert len(whole) == len(RECORDS)
    for number in range(DAMAGES):
        # Of a stream of ORC with other bits pyarrow may crash: tests/unit/spark/test_crash_reports.py.
        choice = random.Random(f"{sample.name} {number}")
        path.write_bytes(damaged(sample.data, choice, only_cut=sample.name.endswith(".orc")))
        assert (number, fault(path, sample, whole)) == (number, "")
