"""The archive of Spark's classes: used if it exists, built later if it does not, and not built if so configured."""

from __future__ import annotations

import atexit
import os
import subprocess
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


def test_only_one_program_builds_it(tmp_path: Path, at_exit: list, builders: list) -> None:
    """Ten programs that end at once would start ten JVMs."""
    for _ in range(3):
        end_of_a_program(tmp_path, at_exit)
    assert len(builders) == 1


def test_a_build_that_has_died_is_done_again(tmp_path: Path, at_exit: list, builders: list) -> None:
    """After one interrupted build each start would be slow, for good."""
    archive = end_of_a_program(tmp_path, at_exit)
    long_ago = time.time() - 3_600
    os.utime(archive.with_suffix(".lock"), (long_ago, long_ago))
    end_of_a_program(tmp_path, at_exit)
    assert len(builders) == 2


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
    killed, building = directory / "classes-d.4711", directory / "classes-e.4712"
    killed.touch()
    os.utime(killed, (0, 0))
    building.touch()
    (directory / "jobs").mkdir()

    class_archive.java_options(JAVA, environ)
    class_archive.prune(directory)

    assert sorted(directory.iterdir()) == sorted([used, directory / "classes-b.jsa", building, directory / "jobs"])
