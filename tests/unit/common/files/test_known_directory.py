"""A directory is told from another one at its place, and from none."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from penstock.common.files.known_directory import KnownDirectory, store_unavailable


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


def known(place: Path) -> KnownDirectory:
    return KnownDirectory(fs.LocalFileSystem(), str(place))


def test_it_is_away_while_it_is_moved(place: Path) -> None:
    """Files of a share that is not mounted would be taken for deleted ones."""
    directory = known(place)
    assert not directory.is_unavailable and not directory.is_identified
    directory.identify()
    moved = place.rename(place.with_name("moved"))
    assert directory.is_unavailable and known(place).is_unavailable
    place.mkdir()
    assert directory.is_unavailable, "another one is in its place"
    assert not known(place).is_unavailable, "which is not known to who comes later"
    place.rmdir()
    moved.rename(place)
    assert not directory.is_unavailable and not directory.is_covered


def test_another_file_system_at_its_place_covers_it(place: Path) -> None:
    """Output would be committed to the place where a share was mounted, and be hidden when it is back."""
    directory = known(place)
    assert not directory.is_covered
    directory.identify()
    place.rmdir()
    place.symlink_to("/proc/self")
    assert directory.is_covered
    place.unlink()
    place.mkdir()
    assert not directory.is_covered, "it is a new one on the same disk"


def test_the_first_note_counts(place: Path) -> None:
    """A directory that was replaced would be the known one from then on."""
    directory = known(place)
    directory.identify()
    place.rename(place.with_name("moved"))
    place.mkdir()
    directory.identify()
    assert directory.is_unavailable


def test_a_store_of_objects_has_no_directories() -> None:
    """A bucket without the objects that were deleted from it would be taken for one that can't be reached."""
    directory = KnownDirectory(fs.S3FileSystem(region="us-east-1", anonymous=True), "bucket/none")
    directory.identify()
    assert not directory.is_unavailable and not directory.is_covered


def test_others_are_asked(tmp_path: Path) -> None:
    """A file system of Hadoop's whose directory is missing would be taken for one whose files were deleted."""
    whole = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    whole.create_dir("there")
    assert not KnownDirectory(whole, "there").is_unavailable
    assert KnownDirectory(whole, "missing").is_unavailable


def test_what_to_do_is_said() -> None:
    """The user would take what is in it for lost."""
    assert "directory /share/jobs is not there: is its store mounted" in str(store_unavailable("/share/jobs"))
