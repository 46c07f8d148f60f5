"""The archive of Spark's classes: used where it is, made later where it is not, and left alone if so wished."""

from __future__ import annotations

import atexit
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
    """The JVM would refuse it at each start, and nobody would make a new one."""
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
