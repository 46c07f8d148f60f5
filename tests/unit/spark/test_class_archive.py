"""The archive of Spark's classes: used if it exists, built later if it does not, and not built if so configured."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.spark.driver import class_archive
from penstock.spark.driver.java import JavaHome

JAVA = JavaHome(Path("/java"), "17.0.9", "PATH")


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> list:
    registered: list = []
    monkeypatch.setattr(atexit, "register", lambda *call: registered.append(call))
    return registered


def test_it_is_made_after_the_first_program(tmp_path: Path, at_exit: list) -> None:
    """Every start would take three seconds longer than it has to."""
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert class_archive.java_options(JAVA, environ) == ""
    ((_, archive),) = at_exit
    archive.parent.mkdir(parents=True)
    archive.touch()
    options = class_archive.java_options(JAVA, environ)
    assert f"-XX:SharedArchiveFile={archive}" in options
    assert "-Xlog:disable" in options, "an archive that does not fit any more is no news for the user"
    assert len(at_exit) == 1


def test_another_java_has_another_archive(tmp_path: Path, at_exit: list) -> None:
    """The JVM would refuse the archive at each start, and it would never be rebuilt."""
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    for java in (JAVA, JavaHome(Path("/java"), "21.0.1", "PATH"), JavaHome(Path("/other"), "17.0.9", "PATH")):
        class_archive.java_options(java, environ)
    assert len({archive for _, archive in at_exit}) == 3


def test_it_can_be_turned_off(tmp_path: Path, at_exit: list) -> None:
    """170 MB would appear in a home directory whose owner wants no such thing."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PENSTOCK_CLASS_ARCHIVE": "off"}
    assert class_archive.java_options(JAVA, environ) == ""
    assert not at_exit


def test_one_that_is_there_can_be_used_and_none_be_built(tmp_path: Path, at_exit: list) -> None:
    """A program in an image that holds an archive would build another one when its Java is not the image's."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PENSTOCK_CLASS_ARCHIVE": "use"}
    assert class_archive.java_options(JAVA, environ) == ""
    assert not at_exit
    archive = class_archive.archive_of(JAVA, environ)
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in class_archive.java_options(JAVA, environ)


def test_the_one_who_makes_it_asks_the_jvm_for_it(tmp_path: Path, at_exit: list) -> None:
    """The background program would use the archive that it is to make, and so make none."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PENSTOCK_CLASS_ARCHIVE": "/tmp/new.jsa"}
    assert "-XX:ArchiveClassesAtExit=/tmp/new.jsa" in class_archive.java_options(JAVA, environ)
    assert not at_exit


@pytest.fixture
def builders(tmp_path: Path, at_exit: list, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The programs that were started to build an archive."""
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    yield started


def end_of_a_program(tmp_path: Path, at_exit: list) -> Path:
    """Ask for the options, then exit; the path of the archive."""
    class_archive.java_options(JAVA, {"XDG_CACHE_HOME": str(tmp_path)})
    end, archive = at_exit[-1]
    end(archive)
    return archive


def test_it_is_built_in_a_process_of_its_own(tmp_path: Path, at_exit: list, builders: list) -> None:
    """The first program would end a minute late."""
    archive = end_of_a_program(tmp_path, at_exit)
    ((*_, module, argument),) = builders
    assert (module, argument) == ("penstock.spark.driver.class_archive_builder", str(archive))


HOLDS_THE_LOCK = """
import sys, time
from pathlib import Path
from penstock.spark.driver.class_archive import half_made, locked
archive = Path(sys.argv[1])
with locked(archive):
    half_made(archive).write_bytes(b"half")
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def builder(tmp_path: Path, at_exit: list) -> Iterator[tuple[Path, subprocess.Popen]]:
    """The archive that is being built, and the process that builds it."""
    class_archive.java_options(JAVA, {"XDG_CACHE_HOME": str(tmp_path)})
    archive = at_exit[-1][1]
    process = subprocess.Popen([sys.executable, "-c", HOLDS_THE_LOCK, str(archive)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"locked\n"
    yield archive, process
    process.kill()
    process.communicate()


def test_only_one_program_builds_it(
    tmp_path: Path, at_exit: list, builder: tuple[Path, subprocess.Popen], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten programs that end at once would start ten JVMs; and a long build would be started again after ten minutes."""
    archive, _ = builder
    # Started at the same moment as the first, before it had the lock.
    second = [sys.executable, "-m", "penstock.spark.driver.class_archive_builder", str(archive)]
    assert subprocess.run(second, timeout=60, check=True).returncode == 0
    assert not archive.exists()
    started: list = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    assert end_of_a_program(tmp_path, at_exit) == archive
    assert started == []


def test_a_build_that_has_died_is_done_again_and_leaves_nothing(
    tmp_path: Path,
    at_exit: list,
    builder: tuple[Path, subprocess.Popen],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After one interrupted build each start would be slow, for good, and 170 MB of it would stay."""
    archive, process = builder
    half = archive.with_suffix(f".{process.pid}")
    other = archive.with_name("classes-21.0.1-4.1.0-0123456789ab.jsa").with_suffix(".7")
    other.write_bytes(b"of another Java")
    class_archive.java_options(JAVA, {"XDG_CACHE_HOME": str(tmp_path)})
    assert half.exists(), "while it is built"
    process.kill()
    process.wait()
    started: list = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    with caplog.at_level(logging.DEBUG):
        end_of_a_program(tmp_path, at_exit)
    assert not half.exists() and other.exists()
    assert f"removed {half}" in caplog.text
    assert len(started) == 1


def test_a_cache_that_can_not_be_written_is_no_failure(tmp_path: Path, at_exit: list, builders: list) -> None:
    """A program that has done its work would end with a traceback."""
    (tmp_path / "penstock").write_text("a file in the place of the directory")
    end_of_a_program(tmp_path, at_exit)
    assert builders == []


def test_only_those_used_last_stay(tmp_path: Path, at_exit: list) -> None:
    """Each virtual environment would leave 170 MB in the home directory."""
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    directory = tmp_path / "penstock"
    directory.mkdir()
    class_archive.java_options(JAVA, environ)
    used = at_exit[0][1]
    for age_s, path in enumerate((directory / "classes-b.jsa", directory / "classes-c.jsa", used), 1000):
        path.touch()
        os.utime(path, (time.time() - age_s, time.time() - age_s))
    (directory / "jobs").mkdir()

    class_archive.java_options(JAVA, environ)
    class_archive.prune(directory)

    assert sorted(directory.iterdir()) == sorted([used, directory / "classes-b.jsa", directory / "jobs"])
