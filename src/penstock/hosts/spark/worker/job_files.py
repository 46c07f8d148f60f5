"""In a worker: what travels with a job can be imported and opened, from `enter` on.

Modules of the job come before those that are installed; its archives are in the working directory. The first worker of
an executor unpacks the bundle and installs the requirements, the others wait for it. A worker that Spark uses for
several jobs, as it may in the user's own session, leaves the one before: two jobs may have modules of one name.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from penstock.common.errors import ConfigurationError
from penstock.common.files import cached_files
from penstock.hosts.spark.job_files import JobFiles

_WORK = "work"
_SITE = "site"
_LAST_LINES = 5


class WorkerOfJob:
    """This process as a worker of the job that has these files. `root`: the folder of the files that Spark has sent."""

    def __init__(self, files: JobFiles, root: Path) -> None:
        self._before = str(Path.cwd())
        self._added: list[str] = []
        self._directory: Path | None = None
        if files.bundle:
            self._directory = unpacked(files, root)
            folders = [*files.modules, *([_SITE] if files.requirements else [])]
            self._added = [str(self._directory / folder) for folder in folders]
            cached_files.provide({name: self._directory / path for name, path in files.cached.items()})
            sys.path[:0] = self._added
            if files.has_archives:
                os.chdir(self._directory / _WORK)
            importlib.invalidate_caches()
        # At the end, so that what is installed there comes first.
        self._appended = [entry for entry in files.path if entry not in sys.path]
        sys.path.extend(self._appended)

    def leave(self) -> None:
        """Nothing of the job is found any more. What other jobs could find, too, stays."""
        cached_files.provide({})
        for entry in self._added:
            with contextlib.suppress(ValueError):
                sys.path.remove(entry)
        if self._directory is None:
            return
        own = f"{self._directory}{os.sep}"
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(own):
                del sys.modules[name]
        os.chdir(self._before)
        importlib.invalidate_caches()


_entered: tuple[JobFiles, WorkerOfJob] | None = None


def enter(files: JobFiles) -> None:
    """Make this process a worker of the job with these files, and of no other one.

    Raises ConfigurationError if its requirements can't be installed, or an archive is none.
    """
    global _entered
    if _entered is not None:
        before, worker = _entered
        if before == files:
            return
        _entered = None
        worker.leave()
    _entered = files, WorkerOfJob(files, _root() if files.bundle else Path())


def _root() -> Path:
    from pyspark import SparkFiles

    # On an executor it is ".", and a job with archives has another working directory.
    return Path(SparkFiles.getRootDirectory()).absolute()


def unpacked(files: JobFiles, root: Path) -> Path:
    """The folder with all that the bundle brings; made by the first worker of an executor that asks for it.

    Raises ConfigurationError if requirements can't be installed, or an archive is none.
    """
    directory = root / f"{files.bundle}.d"
    if directory.is_dir():
        return directory
    with (root / f"{files.bundle}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.is_dir():
            part = Path(tempfile.mkdtemp(prefix=f".{files.bundle}-", dir=root))
            try:
                _unpack(files, root / files.bundle, part)
                part.rename(directory)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
    return directory


def _unpack(files: JobFiles, bundle: Path, into: Path) -> None:
    _extract(bundle, into)
    for name, target in files.packed:
        _extract(into / name, into / target)
    for name, target in files.archives:
        _extract(into / name, into / _WORK / target)
    if files.requirements:
        _install(into / files.requirements, into / files.wheels if files.wheels else None, into / _SITE)


def _extract(archive: Path, into: Path) -> None:
    """Extract it with modes and links, which environments of Python need; its origin is that of the job's own code."""
    into.mkdir(parents=True, exist_ok=True)
    # In this order: zips are known by their end, which a tar file with a zip in it has as well.
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            tar.extraction_filter = lambda member, path: member
            tar.extractall(into)
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            for entry in file.infolist():
                _extract_entry(file, entry, into)
    else:
        raise ConfigurationError(f"{archive.name} cannot be extracted: neither zip nor tar")


def _extract_entry(file: zipfile.ZipFile, entry: zipfile.ZipInfo, into: Path) -> None:
    # zipfile itself knows neither.
    mode = entry.external_attr >> 16
    if stat.S_ISLNK(mode):
        link = into / entry.filename
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.fsdecode(file.read(entry)))
        return
    path = Path(file.extract(entry, into))
    if stat.S_IMODE(mode) and not entry.is_dir():
        path.chmod(stat.S_IMODE(mode))


def _install(requirements: Path, wheels: Path | None, into: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--target", str(into), "--requirement", str(requirements)]
    if wheels is not None:
        command += ["--no-index", "--find-links", str(wheels)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if done.returncode != 0:
        said = "\n  ".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise ConfigurationError(f"an executor can't install the job's requirements by {sys.executable}:\n  {said}")
    into.mkdir(exist_ok=True)
