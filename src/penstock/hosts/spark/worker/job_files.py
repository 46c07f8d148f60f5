"""Set up the files of a job in a worker, so that functions can import and open them.

Modules of the job precede installed ones; its archives are in the working directory. The first worker of an executor
unpacks the bundle and installs the requirements, and the others wait for it. In a session of the user's, Spark may use
a worker for several jobs: the files of the previous job are removed from the process, since two jobs may have modules
with the same name.
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


class FileSetup:
    """Set up the files of a job in this process. `root`: the folder of the files that Spark has sent."""

    def __init__(self, files: JobFiles, root: Path) -> None:
        self._original_directory = str(Path.cwd())
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
        # At the end, so that modules that are installed on the executor precede those of the driver.
        sys.path.extend(entry for entry in files.path if entry not in sys.path)

    def undo(self) -> None:
        """Remove the job's modules and files from this process. Folders of the driver's import path stay."""
        cached_files.provide({})
        for entry in self._added:
            with contextlib.suppress(ValueError):
                sys.path.remove(entry)
        if self._directory is None:
            return
        prefix = f"{self._directory}{os.sep}"
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(prefix):
                del sys.modules[name]
        os.chdir(self._original_directory)
        importlib.invalidate_caches()


_current: tuple[JobFiles, FileSetup] | None = None


def set_up_files(files: JobFiles) -> None:
    """Set up the files of a job, and undo the setup of another job.

    Raises ConfigurationError if the requirements cannot be installed, or if an archive is neither zip nor tar.
    """
    global _current
    if _current is not None:
        previous_files, previous = _current
        if previous_files == files:
            return
        _current = None
        previous.undo()
    _current = files, FileSetup(files, _root() if files.bundle else Path())


def _root() -> Path:
    from pyspark import SparkFiles

    # Absolute: on an executor it is ".", and the setup of archives changes the working directory.
    return Path(SparkFiles.getRootDirectory()).absolute()


def unpacked(files: JobFiles, root: Path) -> Path:
    """Return the folder of the unpacked bundle. The first worker of an executor creates it.

    Raises ConfigurationError if the requirements cannot be installed, or if an archive is neither zip nor tar.
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
    """Extract with modes and links, which Python environments need. Archives are trusted like the job's own code."""
    into.mkdir(parents=True, exist_ok=True)
    # Check for tar first: a zip is recognized by its end, and a tar file that contains a zip may have such an end.
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
    # zipfile handles neither modes nor links.
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
        output = "\n  ".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise ConfigurationError(f"an executor cannot install the job's requirements by {sys.executable}:\n  {output}")
    into.mkdir(exist_ok=True)
