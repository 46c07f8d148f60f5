"""The archive of Spark's classes: used if it exists, otherwise created by the first program, bounded, switched off."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.hosts.spark.driver.class_archive import BUILDER, ClassArchive, absolute_python_path, prune
from penstock.hosts.spark.driver.java import JavaHome, find_java


@pytest.fixture
def java(tmp_path: Path) -> JavaHome:
    (tmp_path / "java").mkdir()
    return JavaHome(tmp_path / "java", "17.0.9", "PATH")


def archive_of(java: JavaHome, tmp_path: Path, **environ: str) -> ClassArchive:
    return ClassArchive(java, {"XDG_CACHE_HOME": str(tmp_path), "PENSTOCK_CLASS_ARCHIVE": "on", **environ})


def jvm(archive: ClassArchive) -> Callable[[], None]:
    """What ends a JVM: it writes the file that its options name."""
    new = archive.options.partition("-XX:ArchiveClassesAtExit=")[2].split()[0]
    return lambda: Path(new).write_bytes(b"classes") and None


def made(java: JavaHome, tmp_path: Path) -> ClassArchive:
    archive = archive_of(java, tmp_path)
    archive.finish(jvm(archive))
    return archive


def test_the_first_program_makes_it_and_the_next_ones_use_it(java: JavaHome, tmp_path: Path) -> None:
    """Every start would take three seconds longer than it has to."""
    first = archive_of(java, tmp_path)
    assert first.is_being_created and not first.path.exists()
    first.finish(jvm(first))
    second = archive_of(java, tmp_path)

    assert f"-XX:SharedArchiveFile={first.path}" in second.options
    assert "-Xlog:disable" in second.options, "the user is not warned of an archive that no longer fits"
    assert not second.is_being_created
    assert sorted(path.suffix for path in first.path.parent.iterdir()) == [".jsa", ".owner"]


def test_it_can_be_turned_off(java: JavaHome, tmp_path: Path) -> None:
    """170 MB would appear in a home directory whose owner wants no such thing."""
    archive = archive_of(java, tmp_path, PENSTOCK_CLASS_ARCHIVE="off")

    assert (archive.options, archive.is_being_created) == ("", False)


def test_an_archive_can_be_used_while_creation_is_off(java: JavaHome, tmp_path: Path) -> None:
    """A program in an image that holds an archive would make another one when its Java is not the image's."""
    assert archive_of(java, tmp_path, PENSTOCK_CLASS_ARCHIVE="use").options == ""
    made(java, tmp_path)
    assert archive_of(java, tmp_path, PENSTOCK_CLASS_ARCHIVE="use").is_used


def test_a_removed_archive_is_created_again(java: JavaHome, tmp_path: Path) -> None:
    """The command that makes it would do nothing, since another environment has one, or a JVM could not once."""
    other = made(java, tmp_path)
    (tmp_path / "other").mkdir()
    here = JavaHome(tmp_path / "other", "17.0.9", "PATH")
    assert not archive_of(here, tmp_path).is_being_created
    other.remove()
    refused = archive_of(here, tmp_path)
    refused.finish(lambda: None)
    assert not archive_of(here, tmp_path).is_being_created
    refused.remove()

    assert archive_of(here, tmp_path).is_being_created


def test_a_program_without_a_switch_has_it_made_in_the_background(java: JavaHome, tmp_path: Path) -> None:
    """A program that has printed its last result would not end for ten seconds."""
    archive = archive_of(java, tmp_path, PENSTOCK_CLASS_ARCHIVE="")
    assert (archive.options, archive.is_being_created, archive.is_missing) == ("", False, True)
    made(java, tmp_path)

    archive = archive_of(java, tmp_path, PENSTOCK_CLASS_ARCHIVE="")
    assert "SharedArchiveFile" in archive.options and not archive.is_missing


@pytest.mark.parametrize("switch", ["off", "use", "on"])
def test_nothing_is_made_in_the_background_against_the_switch(java: JavaHome, tmp_path: Path, switch: str) -> None:
    """A container that is thrown away would spend its CPU on an archive."""
    assert not archive_of(java, tmp_path, PENSTOCK_CLASS_ARCHIVE=switch).is_missing


def test_one_for_each_version_whatever_number_of_environments(java: JavaHome, tmp_path: Path) -> None:
    """Each virtual environment would leave 170 MB in the home directory."""
    first = made(java, tmp_path)
    (tmp_path / "other").mkdir()
    other = JavaHome(tmp_path / "other", "17.0.9", "PATH")

    assert archive_of(other, tmp_path).options == ""
    week_ago = time.time() - 8 * 24 * 3600
    os.utime(first.path, (week_ago, week_ago))
    second = made(other, tmp_path)
    assert second.path == first.path
    assert archive_of(java, tmp_path).options == ""
    assert "SharedArchiveFile" in archive_of(other, tmp_path).options


def test_the_archive_of_a_deleted_environment_is_created_again(java: JavaHome, tmp_path: Path) -> None:
    """A user who creates an environment again would start slowly for a week."""
    made(java, tmp_path)
    java.path.rename(tmp_path / "moved")

    assert archive_of(JavaHome(tmp_path / "moved", "17.0.9", "PATH"), tmp_path).is_being_created


def test_only_those_used_last_stay(tmp_path: Path) -> None:
    """Each new version would add 170 MB, for good."""
    for age_s, name in enumerate(("classes-c.jsa", "classes-b.jsa", "classes-a.jsa")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age_s, 1000 - age_s))
    (tmp_path / "classes-a.owner").touch()
    (tmp_path / "jobs").mkdir()
    prune(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["classes-b.jsa", "classes-c.jsa", "jobs"]


def test_the_user_sees_that_an_archive_is_created(
    java: JavaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that has printed its last result and does not end looks stuck."""
    archive = archive_of(java, tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    archive.finish(jvm(archive))

    error = capsys.readouterr().err
    assert error == (
        "penstock: archiving Spark's classes, so that Spark starts faster from now on: "
        f"{archive.path} (170 MB). Ctrl-C skips this, PENSTOCK_CLASS_ARCHIVE=off always\n"
    )


def test_ctrl_c_goes_without_and_leaves_nothing(java: JavaHome, tmp_path: Path) -> None:
    """A user in a hurry would get a traceback, and half an archive on disk."""

    def interrupted() -> None:
        jvm(archive)()
        raise KeyboardInterrupt

    archive = archive_of(java, tmp_path)
    archive.finish(interrupted)

    assert list(archive.path.parent.iterdir()) == []
    assert archive_of(java, tmp_path).is_being_created


def test_a_jvm_that_cannot_write_the_archive_tries_once(java: JavaHome, tmp_path: Path) -> None:
    """Each program would end seconds late, with the same promise."""
    archive = archive_of(java, tmp_path)
    archive.finish(lambda: None)

    assert archive_of(java, tmp_path).options == ""
    (tmp_path / "other").mkdir()
    assert archive_of(JavaHome(tmp_path / "other", "17.0.9", "PATH"), tmp_path).is_being_created


@pytest.mark.thorough
def test_a_process_in_the_background_that_fails_is_not_started_again(tmp_path: Path) -> None:
    """Each program would start it once more after its end, for ten seconds of CPU, and nobody would see why."""
    (tmp_path / "penstock").mkdir()
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAVA_TOOL_OPTIONS": "-XX:+NoSuchOption"}
    subprocess.run([sys.executable, "-m", BUILDER, "1"], env=environ, stderr=subprocess.DEVNULL, check=False)

    archive = ClassArchive(find_java(os.environ), {"XDG_CACHE_HOME": str(tmp_path)})
    assert not archive.is_missing
    archive.remove()
    assert ClassArchive(find_java(os.environ), {"XDG_CACHE_HOME": str(tmp_path)}).is_missing


def test_a_relative_path_to_packages_is_absolute_in_the_background() -> None:
    """The process works in the cache's folder: without the program's packages it would fail to import penstock."""
    paths = os.pathsep.join(["src", "/opt/packages", ""])
    assert absolute_python_path({"PYTHONPATH": paths}) == {"PYTHONPATH": f"{Path('src').absolute()}:/opt/packages"}
    assert absolute_python_path({}) == {}


def test_leftovers_of_killed_processes_are_removed(
    java: JavaHome, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each would leave 170 MB, for good."""
    archive = archive_of(java, tmp_path)
    left, written_now = archive.path.with_suffix(".7"), archive.path.with_suffix(".8")
    left.touch()
    written_now.touch()
    os.utime(left, (1000, 1000))
    with caplog.at_level(logging.DEBUG):
        archive_of(java, tmp_path)

    assert not left.exists() and written_now.exists()
    assert f"removed {left}" in caplog.text


def test_a_cache_that_can_not_be_written_is_no_failure(java: JavaHome, tmp_path: Path) -> None:
    """A program that has done its work would end with a traceback."""
    (tmp_path / "penstock").write_text("a file in the place of the directory")

    assert archive_of(java, tmp_path).options == ""


def test_a_program_with_its_own_classes_creates_no_archive(java: JavaHome, tmp_path: Path) -> None:
    """The archive would fit no other program, and stay."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PENSTOCK_CLASS_ARCHIVE": "on"}

    assert not ClassArchive(java, environ, may_create=False).is_being_created
    made(java, tmp_path)
    assert "SharedArchiveFile" in ClassArchive(java, environ, may_create=False).options


def test_a_program_that_ctrl_c_has_ended_does_not_stay_for_it(java: JavaHome, tmp_path: Path) -> None:
    """The prompt would come back half a minute after Ctrl-C, and 105 MB of an unfinished archive would stay."""
    archive = archive_of(java, tmp_path)
    write = jvm(archive)
    archive.abandon(write)

    assert list(archive.path.parent.iterdir()) == []
    archive.finish(write)
    assert list(archive.path.parent.iterdir()) == [], "it is not asked for a second time"
    assert archive_of(java, tmp_path).is_being_created


def test_a_process_with_an_archive_removes_leftovers(java: JavaHome, tmp_path: Path) -> None:
    """Leftovers of earlier attempts would stay once there is an archive."""
    archive = made(java, tmp_path)
    left = archive.path.with_suffix(".7")
    left.touch()
    os.utime(left, (1000, 1000))

    assert archive_of(java, tmp_path).is_used and not left.exists()
