"""Directories of the cache: whole or not there, also if several processes make the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.common.files.new_directory import new_directory


def test_a_directory_appears_when_it_is_complete(tmp_path: Path) -> None:
    """Another process would use half of it."""
    target = tmp_path / "cache" / "jars"
    with new_directory(target) as new:
        (new / "a").write_text("a")
        (new.parent / "of the tool").write_text("not kept")
        assert not target.exists()
    assert (target / "a").read_text() == "a"
    assert [*target.parent.iterdir()] == [target]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    """The next start would take what is there for the whole."""
    with pytest.raises(KeyError), new_directory(tmp_path / "jars") as new:
        (new / "a").write_text("a")
        raise KeyError
    assert not [*tmp_path.iterdir()]


def test_a_process_that_was_faster(tmp_path: Path) -> None:
    """A program that runs would lose the files that it has open."""
    target = tmp_path / "jars"
    with new_directory(target) as new:
        (new / "a").write_text("mine")
        target.mkdir()
        (target / "a").write_text("the other's")
    assert (target / "a").read_text() == "the other's"
    assert [*tmp_path.iterdir()] == [target]


def test_a_name_that_is_taken_by_a_file(tmp_path: Path) -> None:
    """The caller would go on without a directory."""
    (tmp_path / "jars").write_text("a file")
    with pytest.raises(OSError), new_directory(tmp_path / "jars") as new:
        (new / "a").write_text("a")
