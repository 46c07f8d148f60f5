"""The daemon from which workers are forked: it has imported what they need, and nothing that would hurt them."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock.hosts.spark.internals.daemon import without_zips
from penstock.hosts.spark.job_files import PRELOADED
from penstock.hosts.spark.worker.daemon import IMPORTED_BEFORE_FORK

PROGRAM = """
import gc, sys, threading
import pyspark.daemon
from penstock.hosts.spark.worker import daemon

def manager():
    missing = [name for name in daemon.IMPORTED_BEFORE_FORK if name not in sys.modules]
    print(missing, gc.get_freeze_count() > 10_000, [t.name for t in threading.enumerate()])

pyspark.daemon.manager = manager
daemon.main()
"""


@pytest.mark.parametrize("name", IMPORTED_BEFORE_FORK)
def test_the_modules_that_it_imports_exist(name) -> None:
    """No worker would start after a module was renamed."""
    importlib.import_module(name)


@pytest.mark.thorough
def test_it_imports_then_serves() -> None:
    """Each worker would import for itself; a thread that runs at a fork would leave its locks locked in the child."""
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert result.stdout == "[] True ['MainThread']\n"


@pytest.mark.thorough
def test_it_imports_what_the_jobs_of_a_program_need() -> None:
    """Each worker of a SQL job would import its operators; a module that does not exist would end all workers."""
    program = PROGRAM.replace("daemon.main()", "daemon.main(); print('colorsys' in sys.modules)")
    environ = {**os.environ, PRELOADED: "no_such_module,colorsys"}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert result.stdout.splitlines()[-1] == "True"


ZIPPED = """
import importlib, sys, zipimport
import pyspark.daemon
from penstock.hosts.spark.worker import daemon

def manager():
    importers = [path for path, one in sys.path_importer_cache.items() if isinstance(one, zipimport.zipimporter)]
    importlib.invalidate_caches()
    import pyspark.sql.tvf
    print(importers, [".zip" in module.__file__ for module in (pyspark.daemon, pyspark.sql.tvf)])

pyspark.daemon.manager = manager
assert "pyspark.sql.tvf" not in sys.modules
daemon.main()
"""


@pytest.mark.thorough
def test_workers_do_not_read_sparks_zip_again() -> None:
    """Each slot would take 0.2 s of CPU more to start: workers invalidate what importers know."""
    zips = sorted(str(path) for path in (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([*zips, os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run([sys.executable, "-c", ZIPPED], capture_output=True, text=True, check=False, env=environ)
    assert (result.stdout, result.stderr) == ("[] [True, True]\n", "")


def test_zips_of_an_installed_pyspark_are_left_out() -> None:
    """Each start would compile PySpark again: half a second until the first record."""
    installed = Path(pyspark.__file__).parent
    zips = sorted(map(str, (installed / "python" / "lib").glob("*.zip")))
    assert len(zips) == 2
    assert without_zips([*zips, "/elsewhere", str(installed.parent)]) == ["/elsewhere", str(installed.parent)]


def test_zips_are_kept_where_nothing_else_has_their_modules(tmp_path: Path) -> None:
    """On an executor that has Spark, and no PySpark among Python's packages, no worker would start."""
    installed = Path(pyspark.__file__).parent
    zips = sorted(map(str, (installed / "python" / "lib").glob("*.zip")))
    assert without_zips([*zips, "/elsewhere"]) == [*zips, "/elsewhere"]
    (tmp_path / "pyspark" / "python" / "lib").mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").touch()
    theirs = tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"
    theirs.touch()
    for path in ([*zips, str(tmp_path)], [str(theirs), str(tmp_path)]):
        assert without_zips(path) == path, "of another installation; without py4j"
