"""Working directories: as long as their process holds them nobody removes them, and afterwards the next one does."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.common.files.held_directory import HeldDirectory, remove_abandoned

HOLDS = """
import sys, time
from pathlib import Path
from penstock.common.files.held_directory import HeldDirectory
held = HeldDirectory("rocksdb", sys.argv[1])
(Path(held.path) / "000001.sst").write_bytes(b"x")
print(held.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(name="other")
def _other(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that holds a directory below `tmp_path`."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def test_what_a_process_holds_is_left_alone(tmp_path: Path, other: tuple[subprocess.Popen[str], Path]) -> None:
    """A worker that starts would delete the state of a job that runs, in another container for example."""
    held = HeldDirectory("query", str(tmp_path))
    remove_abandoned(str(tmp_path))
    assert {str(path) for path in tmp_path.iterdir()} == {held.path, str(other[1])}


def test_what_a_killed_process_has_left_is_removed(
    tmp_path: Path, other: tuple[subprocess.Popen[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """After some kills a disk would be full of what nobody needs."""
    process, left = other
    process.kill()
    process.wait()
    assert left.exists()
    with caplog.at_level(logging.DEBUG):
        remove_abandoned(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert f"removed {left}" in caplog.text


KEEPS = """
import sys
from pathlib import Path
from penstock.common.files.held_directory import HeldDirectory
held = HeldDirectory("checkpoints", sys.argv[1])
(Path(held.path) / "_metadata").write_bytes(b"x")
held.keep()
held.keep()
print(held.path)
"""


def test_what_is_kept_stays_for_good_where_it_was(tmp_path: Path) -> None:
    """The checkpoints of a failed job would be gone with the next program, or not be where its error says."""
    done = subprocess.run([sys.executable, "-c", KEEPS, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True)
    remove_abandoned(str(tmp_path))
    path = Path(done.stdout.strip())
    assert (path / "_metadata").read_bytes() == b"x"
    # Also for a process of another version, which removes each directory of this name that it can lock.
    assert not [each for each in tmp_path.glob("penstock-held-*") if not each.is_symlink()]
    assert path.resolve().parent == tmp_path


def test_what_can_not_be_kept_is_held_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A user would not know that the checkpoints of a failed job are about to go."""
    held = HeldDirectory("checkpoints", str(tmp_path))
    (tmp_path / Path(held.path).name.replace("held", "kept") / "of another").mkdir(parents=True)
    held.keep()
    remove_abandoned(str(tmp_path))
    assert Path(held.path).is_dir() and f"{held.path} is removed when this process has ended" in caplog.text
    held.remove()


def test_what_is_not_penstocks_is_left_alone(tmp_path: Path) -> None:
    """A temporary directory is everybody's."""
    (tmp_path / "penstock-held-by-name").write_text("a file")
    (tmp_path / "somewhere").mkdir()
    (tmp_path / "penstock-held-link").symlink_to(tmp_path / "somewhere")
    (tmp_path / "another").mkdir()
    remove_abandoned(str(tmp_path))
    remove_abandoned(str(tmp_path / "nowhere"))
    assert len(list(tmp_path.iterdir())) == 4


def test_a_directory_that_is_removed_is_gone_and_free(tmp_path: Path) -> None:
    """A long-lived driver would run out of file descriptors, one for each job."""
    descriptors = len(list(Path("/dev/fd").iterdir()))
    for _ in range(3):
        held = HeldDirectory("query", str(tmp_path))
        (Path(held.path) / "offsets").mkdir()
        held.remove_if_empty()
        assert Path(held.path).exists(), "it is not empty"
        held.remove()
        held.remove()
    held = HeldDirectory("query", str(tmp_path))
    held.remove_if_empty()
    held.remove_if_empty()
    assert list(tmp_path.iterdir()) == []
    assert len(list(Path("/dev/fd").iterdir())) == descriptors
