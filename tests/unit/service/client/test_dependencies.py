"""What a program declares to travel with it, and the modules that do so by themselves."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from penstock.common import Configuration
from penstock.common.errors import ConfigurationError
from penstock.common.files.cached_files import CachedFile, cached_files_in
from penstock.datastream import StreamExecutionEnvironment
from penstock.service.client.dependencies import Dependencies
from penstock.service.client.script_modules import script_modules


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("rules.py", "data.zip", "requirements.txt"):
        (tmp_path / name).touch()
    (tmp_path / "wheels").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declared(env: StreamExecutionEnvironment) -> Dependencies:
    return Dependencies.of(env._configuration)


def test_registered_files_are_in_the_configuration_as_flink_writes_them(files: Path) -> None:
    """A name or path with a quote or a semicolon would name other files; a missing one would be found by a task."""
    env = StreamExecutionEnvironment()
    odd = files / "it's; name:x, here"
    odd.touch()
    env.register_cached_file(Path("rules.py"), "rules, 'the newest'")
    env.register_cached_file(str(odd), "odd", executable=True)
    cached = (CachedFile("rules, 'the newest'", str(files / "rules.py")), CachedFile("odd", str(odd), True))
    assert declared(env).cached == cached
    text = f"name:a,path:{files / 'rules.py'};name:b,path:'file://{files / 'wheels'}',executable:false"
    cached = Dependencies.of(Configuration.from_dict({"pipeline.cached-files": text})).cached
    assert cached == (CachedFile("a", str(files / "rules.py")), CachedFile("b", str(files / "wheels")))
    quoted = cached_files_in('name:"a ""b"";",path:"it\'s, here"')
    assert quoted == [CachedFile('a "b";', "it's, here")]


def test_registering_what_can_not_be_found_again_is_refused_at_once() -> None:
    """The mistake would be told when the job starts, with a setting that the program does not name."""
    env = StreamExecutionEnvironment()
    env.register_cached_file("rules.py", "rules")
    with pytest.raises(ValueError, match="another cached file is named 'rules'"):
        env.register_cached_file("data.zip", "rules")
    for path, name in (("rules.py", ""), ("", "other")):
        with pytest.raises(ValueError, match="a cached file needs a path and a name"):
            env.register_cached_file(path, name)
    with pytest.raises(TypeError, match="must be a str, got 5"):
        env.register_cached_file("rules.py", 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name:a,path:nowhere", r"pipeline\.cached-files: there is no file or folder 'nowhere'"),
        ("rules.py", r"must have entries name:NAME,path:'PATH' separated by ';', got 'rules.py'"),
        ("name:a", "must have entries name:NAME,path:'PATH'"),
        ("name:a,path:rules.py;name:a,path:data.zip", "several files are named 'a'"),
    ],
)
def test_a_registered_file_that_is_none_is_refused(files: Path, text: str, words: str) -> None:
    """A function would fail on a worker, far from the line that is wrong."""
    with pytest.raises(ConfigurationError, match=words):
        Dependencies.of(Configuration.from_dict({"pipeline.cached-files": text}))


def test_methods_and_settings_name_the_same(files: Path) -> None:
    """What PyFlink's users write would have no effect, or `penstock run -D` an other one than the program."""
    env = StreamExecutionEnvironment()
    assert declared(env) == Dependencies()
    env.add_python_file("rules.py")
    env.add_python_file(str(files / "wheels"))
    env.add_python_archive("data.zip")
    env.add_python_archive("data.zip", "again/data")
    env.set_python_requirements("requirements.txt", "wheels")
    assert declared(env) == Dependencies(
        (files / "rules.py", files / "wheels"),
        ((files / "data.zip", "data.zip"), (files / "data.zip", "again/data")),
        files / "requirements.txt",
        files / "wheels",
    )
    env.set_python_requirements("requirements.txt")
    assert declared(env).wheels is None


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("python.files", "rules.py,gone.py", r"python\.files: there is no file or folder 'gone\.py' on this machine"),
        ("python.archives", "gone.zip#x", r"python\.archives: there is no file 'gone\.zip'"),
        ("python.archives", "data.zip#../x", r"relative path without '\.\.', got '\.\./x'"),
        ("python.archives", "data.zip#/x", "relative path"),
        ("python.archives", "data.zip#x,data.zip#x", "several archives would be extracted to 'x'"),
        ("python.requirements", "gone.txt", "there is no file 'gone.txt'"),
        ("python.requirements", "requirements.txt#gone", "there is no folder 'gone'"),
    ],
)
def test_what_can_not_be_sent_is_refused_before_anything_starts(files: Path, key: str, value: str, said: str) -> None:
    """The job would start a cluster to find that a path is misspelt."""
    env = StreamExecutionEnvironment()
    env._configuration.set_string(key, value)
    with pytest.raises(ConfigurationError, match=said):
        declared(env)


def test_paths_that_would_be_taken_apart_are_refused() -> None:
    """A part of the path would be looked for, and another file be sent."""
    env = StreamExecutionEnvironment()
    with pytest.raises(ValueError, match="comma"):
        env.add_python_file("a,b.py")
    with pytest.raises(ValueError, match="'#'"):
        env.add_python_archive("a#b.zip")


def module(name: str, file: Path | None = None, folder: Path | None = None, package: str | None = None) -> ModuleType:
    made = ModuleType(name)
    made.__package__ = package
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        made.__file__ = str(file)
    if folder is not None:
        made.__path__ = [str(folder)]
    return made


def test_modules_beside_the_script_travel_and_no_others(tmp_path: Path) -> None:
    """A program of two files would not run on a cluster; or half of an environment would be sent with each job."""
    site = tmp_path / ".venv" / "site-packages"
    modules = {
        "__main__": module("__main__", tmp_path / "job.py"),
        "rules": module("rules", tmp_path / "rules.py"),
        "shop": module("shop", tmp_path / "shop" / "__init__.py", tmp_path / "shop"),
        "shop.orders": module("shop.orders", tmp_path / "shop" / "orders.py"),
        "numpy": module("numpy", site / "numpy" / "__init__.py", site / "numpy"),
        "elsewhere": module("elsewhere", tmp_path.parent / "elsewhere.py"),
        "sys": module("sys"),
    }
    assert script_modules(modules) == [tmp_path / "rules.py", tmp_path / "shop"]
    assert script_modules({**modules, "__main__": module("__main__")}) == [], "a notebook has no folder"


def test_a_script_in_a_package_brings_the_package(tmp_path: Path) -> None:
    """`python -m shop.job` would not find `shop` on a cluster."""
    modules = {
        "__main__": module("__main__", tmp_path / "shop" / "job.py", package="shop"),
        "shop": module("shop", tmp_path / "shop" / "__init__.py", tmp_path / "shop"),
    }
    assert script_modules(modules) == [tmp_path / "shop"]


def test_by_default_the_modules_are_those_of_this_program() -> None:
    """A job would look for the modules of nobody."""
    assert Path(sys.modules["pytest"].__file__ or "") not in script_modules()
