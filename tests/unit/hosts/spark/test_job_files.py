"""The bundle, from the files of the driver to what a worker imports and opens."""

from __future__ import annotations

import importlib
import os
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.common.errors import ConfigurationError, ProgramError
from penstock.common.files.cached_files import CachedFile, provided
from penstock.hosts.spark.job_files import JobFiles
from penstock.hosts.spark.worker.job_files import FileSetup, unpacked
from penstock.service.client.bundle import bundle
from penstock.service.client.dependencies import Dependencies


@pytest.fixture(autouse=True)
def process_stays_as_it_is() -> Iterator[None]:
    path, modules, folder = list(sys.path), dict(sys.modules), Path.cwd()
    yield
    sys.path[:] = path
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]
    os.chdir(folder)


def zipped(path: Path, files: dict[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def sent(dependencies: Dependencies, root: Path) -> JobFiles:
    """As Spark sends it: the bundle is in the folder of an executor."""
    files, path = bundle(dependencies)
    assert path is not None and path.name == files.bundle
    root.mkdir(exist_ok=True)
    (root / files.bundle).write_bytes(path.read_bytes())
    return files


def test_all_kinds_of_modules_can_be_imported(tmp_path: Path) -> None:
    """`import` would fail on a cluster, for one of the forms in which code is handed over."""
    modules = (
        written(tmp_path / "one_module.py", "VALUE = 1"),
        written(tmp_path / "folder" / "in_folder.py", "VALUE = 2").parent,
        written(tmp_path / "a_package" / "__init__.py", "VALUE = 3").parent,
        zipped(tmp_path / "zipped.zip", {"in_zip.py": "VALUE = 4"}),
        zipped(tmp_path / "in_wheel-1-py3-none-any.whl", {"in_wheel/__init__.py": "VALUE = 5", "in_wheel/d": "x"}),
    )
    FileSetup(sent(Dependencies(modules), tmp_path / "executor"), tmp_path / "executor")
    names = ("one_module", "in_folder", "a_package", "in_zip", "in_wheel")
    found = [importlib.import_module(name) for name in names]
    assert [one.VALUE for one in found] == [1, 2, 3, 4, 5]
    assert all(str(one.__file__).startswith(str(tmp_path / "executor")) for one in found)


def test_archives_are_in_the_working_directory_with_modes_and_links(tmp_path: Path) -> None:
    """Data would not be found by the path that PyFlink shows; an environment's Python would not start."""
    tree = tmp_path / "tree"
    written(tree / "bin" / "tool", "#!/bin/sh\n").chmod(0o755)
    (tree / "bin" / "link").symlink_to("tool")
    with tarfile.open(tmp_path / "tools.tar.gz", "w:gz") as tar:
        tar.add(tree, "tools")
    linked = tmp_path / "tools.zip"
    with zipfile.ZipFile(linked, "w") as archive:
        archive.write(tree / "bin" / "tool", "tool")
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "tool")
    archives = ((tmp_path / "tools.tar.gz", "tar"), (linked, "tools.zip"))
    FileSetup(sent(Dependencies(archives=archives), tmp_path / "executor"), tmp_path / "executor")
    for folder in ("tar/tools/bin", "tools.zip"):
        assert os.access(f"{folder}/tool", os.X_OK)
        assert Path(f"{folder}/link").readlink() == Path("tool")


def test_two_jobs_with_modules_of_one_name_do_not_meet(tmp_path: Path) -> None:
    """The second job of a session would compute with the code of the first."""
    root = tmp_path / "executor"
    first = sent(Dependencies((written(tmp_path / "1" / "rules.py", "VALUE = 1"),)), root)
    second = sent(Dependencies((written(tmp_path / "2" / "rules.py", "VALUE = 2"),)), root)
    assert first.bundle != second.bundle
    before = list(sys.path)
    for files, value in ((first, 1), (second, 2), (first, 1)):
        worker = FileSetup(files, root)
        imported = importlib.import_module("rules").VALUE
        assert imported == value
        worker.undo()
        assert "rules" not in sys.modules and sys.path == before


def test_a_worker_that_leaves_a_job_is_where_it_was(tmp_path: Path) -> None:
    """Paths of the next job's functions would lead into the folder of another one."""
    here = Path.cwd()
    archives = ((zipped(tmp_path / "d.zip", {"d": "x"}), "d"),)
    worker = FileSetup(sent(Dependencies(archives=archives), tmp_path / "executor"), tmp_path / "executor")
    assert Path.cwd() != here and Path("d/d").exists()
    worker.undo()
    assert Path.cwd() == here


def test_equal_files_are_sent_once(tmp_path: Path) -> None:
    """Each job of a notebook would send its wheels again, and each executor keep them."""
    module = written(tmp_path / "rules.py", "VALUE = 1")
    written(tmp_path / "__pycache__" / "rules.pyc", "changes")
    name = bundle(Dependencies((module, tmp_path)))[0].bundle
    os.utime(module, (1, 1))
    written(tmp_path / "__pycache__" / "rules.pyc", "with each import")
    assert bundle(Dependencies((module, tmp_path)))[0].bundle == name
    written(module, "VALUE = 2")
    assert bundle(Dependencies((module, tmp_path)))[0].bundle != name
    assert bundle(Dependencies()) == (JobFiles(), None)


def test_functions_find_the_files_that_are_registered_for_them(tmp_path: Path) -> None:
    """A function would look for its file at the driver's path, on a machine without such a file."""
    written(tmp_path / "data" / ".rules", "late: 15")
    root = tmp_path / "executor"
    files = [
        CachedFile("rules", str(tmp_path / "data" / ".rules")),
        CachedFile("all of them", str(tmp_path / "data")),
        CachedFile("run", str(written(tmp_path / "run.sh", "#!/bin/sh\necho $0")), executable=True),
    ]
    worker = FileSetup(sent(Dependencies(cached=tuple(files)), root), root)
    cache = provided()
    assert cache.get_file("rules").read_text() == (cache.get_file("all of them") / ".rules").read_text() == "late: 15"
    assert root in cache.get_file("rules").parents
    assert os.access(cache.get_file("run"), os.X_OK) and not os.access(cache.get_file("rules"), os.X_OK)
    with pytest.raises(ProgramError, match=r"no file is registered as 'rule'; registered: 'rules', 'all of them'"):
        cache.get_file("rule")
    worker.undo()
    with pytest.raises(ProgramError, match="registered: none"):
        provided().get_file("rules")


def test_an_error_names_a_file_that_is_not_an_archive(tmp_path: Path) -> None:
    """The user would read of a bad magic number, and of no file. What is half unpacked must not stay."""
    archives = ((written(tmp_path / "rules.zip", "no zip"), "rules"),)
    root = tmp_path / "executor"
    files = sent(Dependencies(archives=archives), root)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"rules\.zip cannot be extracted"):
            unpacked(files, root)
    assert not [path for path in root.iterdir() if path.is_dir()]


def test_an_error_of_requirements_quotes_pip(tmp_path: Path) -> None:
    """The user would see that a worker has died, and not which package is missing."""
    requirements = written(tmp_path / "requirements.txt", "of-nowhere==1.0\n")
    (tmp_path / "wheels").mkdir()
    files = sent(Dependencies((), (), requirements, tmp_path / "wheels"), tmp_path / "executor")
    with pytest.raises(ConfigurationError, match=r"cannot install the job's requirements(.|\n)*of-nowhere"):
        unpacked(files, tmp_path / "executor")
