"""Scratch space of a task: what is written is read back, and nothing is left on disk."""

from __future__ import annotations

import pytest

from penstock.hosts.spark.worker.spill_file import TemporarySpill


def test_written_bytes_can_be_read_in_any_order() -> None:
    """Buffers that were set aside during alignment would come back as others, or cut off."""
    spill = TemporarySpill()
    parts = [b"first", b"", b"\x00" * 100_000, b"last"]
    offsets = [spill.write(part) for part in parts]
    assert offsets == [0, 5, 5, 100_005]
    for part, offset in [*zip(parts, offsets, strict=True)][::-1]:
        assert spill.read(offset, len(part)) == part
    assert spill.write(b"more") == 100_009, "reading does not move where is written"
    spill.close()


def test_nothing_is_left_behind(tmp_path, monkeypatch) -> None:
    """A worker that is killed would leave gigabytes on the local disk."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spill = TemporarySpill()
    spill.write(b"x" * 1000)
    assert list(tmp_path.iterdir()) == [], "the file has no name"
    spill.close()
    with pytest.raises(ValueError, match="closed"):
        spill.read(0, 1)
