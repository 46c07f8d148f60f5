"""Where the planner's jars come from, and what is refused."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.common.errors import ConfigurationError
from penstock.hosts.spark.driver.java import JavaHome
from penstock.table.planner import fetching, jars, wheel
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.jars import SETTING, check, class_path, planner_directory, required_jars


def test_the_list() -> None:
    """A jar would be fetched twice, or with another version of Flink's."""
    required = required_jars()
    assert len({jar.name for jar in required}) == len(required)
    assert {jar.version for jar in required if jar.artifact.startswith("flink-table")} == {"2.3.0"}
    assert all(len(jar.sha256) == 64 for jar in required)


LICENSED = {
    "com.esotericsoftware": ("Kryo", "MinLog", "ReflectASM"),
    "com.google.code.findbugs": ("JSR 305",),
    "commons-cli": ("Apache Commons",),
    "commons-collections": ("Apache Commons",),
    "commons-io": ("Apache Commons",),
    "org.apache.commons": ("Apache Commons",),
    "org.apache.flink": ("Apache Flink",),
    "org.codehaus.janino": ("Janino",),
    "org.javassist": ("Javassist",),
    "org.objenesis": ("Objenesis",),
    "org.scala-lang": ("Scala",),
    "org.slf4j": ("SLF4J",),
    "org.snakeyaml": ("SnakeYAML Engine",),
}


def test_the_notice_names_what_is_downloaded() -> None:
    """Users would not learn under which licenses they run the planner."""
    notice = (Path(__file__).parents[4] / "NOTICE").read_text(encoding="utf-8").partition("SQL is planned")[2]
    assert {jar.group for jar in required_jars()} == set(LICENSED)
    assert not [name for names in LICENSED.values() for name in names if name not in notice]


def test_a_folder_without_jars(tmp_path: Path) -> None:
    """Users without network would not learn how to get the jars."""
    with pytest.raises(PlannerError, match=r"lacks \d+ of the \d+ jars .* Fill it on a machine with network"):
        planner_directory({SETTING: str(tmp_path)})


def test_a_jar_that_is_another(tmp_path: Path) -> None:
    """What somebody has put there would be run."""
    for jar in required_jars():
        (tmp_path / jar.name).write_bytes(b"not a jar")
    found = hashlib.sha256(b"not a jar").hexdigest()[:12]
    with pytest.raises(PlannerError, match=rf"is not the file that penstock expects \(SHA-256 {found}"):
        check(tmp_path)


def test_no_network(tmp_path: Path) -> None:
    """The error would be Maven's, and would not name the way without network."""
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho 'Could not transfer artifact'\nexit 1\n")
    maven.chmod(0o755)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    with pytest.raises(PlannerError, match=rf"(?s)did not fetch .* let {SETTING} name it.*Could not transfer artifact"):
        planner_directory(environ)
    assert not list((tmp_path / "cache" / "penstock").iterdir())


def test_neither_maven_nor_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m penstock.table.planner` would end with a traceback."""

    def no_java(environ: Mapping[str, str]) -> JavaHome:
        raise ConfigurationError("no Java was found")

    monkeypatch.setattr(fetching, "find_java", no_java)
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    with pytest.raises(PlannerError, match=r"SQL is planned by Flink's planner, which needs Java"):
        planner_directory(environ)
    assert not list((tmp_path / "cache" / "penstock").iterdir())


def test_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept process has another working directory: it would not find the jars."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jars, "check", lambda directory: None)
    assert planner_directory({SETTING: "flink"}) == tmp_path / "flink"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apache-flink-libraries with small jars. Returns the folder of these."""
    folder = tmp_path / "site" / "pyflink" / "lib"
    folder.mkdir(parents=True)
    about = tmp_path / "site" / "apache_flink_libraries-2.3.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: apache-flink-libraries\nVersion: 2.3.0\n")
    texts = {"flink-table-planner.jar": "the planner", "flink-dist-2.3.0.jar": "the rest"}
    with zipfile.ZipFile(folder / "flink-table-planner-loader-2.3.0.jar", "w") as loader:
        loader.writestr("flink-table-planner.jar", texts["flink-table-planner.jar"])
    (folder / "flink-dist-2.3.0.jar").write_text(texts["flink-dist-2.3.0.jar"])
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    for module in (wheel, jars):
        monkeypatch.setattr(module, "wheel_jars", lambda: digests)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return folder


def test_an_installed_flink_has_the_planner(installed: Path, tmp_path: Path) -> None:
    """Users who reach PyPI and no repository of Maven could not use SQL."""
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    directory = planner_directory(environ)
    assert [jar.read_text() for jar in class_path(directory)] == ["the planner", "the rest"]
    assert planner_directory(environ) == directory
    (installed / "flink-dist-2.3.0.jar").write_text("something else")
    with pytest.raises(PlannerError, match=r"pyflink/lib/flink-dist-2.3.0.jar is not the file that penstock expects"):
        planner_directory(environ)


def test_a_planner_that_is_not_flinks(installed: Path, tmp_path: Path) -> None:
    """It is a jar within another one: only the outer one's sum would be known."""
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    with zipfile.ZipFile(installed / "flink-table-planner-loader-2.3.0.jar", "w") as loader:
        loader.writestr("flink-table-planner.jar", "somebody's")
    with pytest.raises(
        PlannerError, match=r"flink-table-planner.jar is not the file .* Delete .*-wheel-\w+, and install"
    ):
        planner_directory(environ)


def test_an_installed_flink_fills_a_folder(installed: Path, tmp_path: Path) -> None:
    """Where PyPI can be reached and Maven's repository can not, there would be no way to machines without network."""
    folder, environ = tmp_path / "folder", {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tmp_path)}
    jars.fill(folder, environ)
    shutil.rmtree(tmp_path / "site")
    directory = planner_directory({SETTING: str(folder)})
    assert [jar.read_text() for jar in class_path(directory)] == ["the planner", "the rest"]
    (folder / "flink-table-planner.jar").write_text("something else")
    with pytest.raises(PlannerError, match=r"flink-table-planner.jar is not the file that penstock expects"):
        planner_directory({SETTING: str(folder)})


def test_another_version_of_flink_is_not_used(installed: Path, tmp_path: Path) -> None:
    """Its plans would have other nodes."""
    about = installed.parents[1] / "apache_flink_libraries-2.3.0.dist-info" / "METADATA"
    about.write_text(about.read_text().replace("2.3.0", "2.2.0"))
    assert wheel.wheel_directory("2.3.0", {"XDG_CACHE_HOME": str(tmp_path / "cache")}) is None
