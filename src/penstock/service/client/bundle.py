"""The bundle: one file with everything that travels with a job, named by its content.

Two jobs of one session may bring different files of the same name: they have two bundles, and their workers two
folders. Jobs with the same files share one.
"""

from __future__ import annotations

import atexit
import hashlib
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from penstock.common.files.held_directory import HeldDirectory, remove_abandoned
from penstock.hosts.spark.job_files import JobFiles
from penstock.service.client.dependencies import Dependencies

BUNDLE_NAME = r"penstock-([0-9a-f]{32})\.bundle"
"""The name contains a part of the SHA-256 of the content."""
PACKED = (".zip", ".egg", ".whl")
_REQUIREMENTS = "requirements.txt"
_WHEELS = "wheels"


def bundle(dependencies: Dependencies) -> tuple[JobFiles, Path | None]:
    """Pack the files. Return what workers need to know, and the bundle, which exists as long as this process.

    Returns None if there is nothing to pack. Raises OSError if a file can't be read, or the bundle can't be written.
    """
    if dependencies == Dependencies():
        return JobFiles(), None
    modules: list[str] = []
    packed: list[tuple[str, str]] = []
    archives: list[tuple[str, str]] = []
    with tempfile.NamedTemporaryFile(dir=_folder().path, suffix=".part", delete=False) as file:
        with tarfile.open(fileobj=file, mode="w", dereference=True) as tar:

            def add(path: Path, name: str) -> str:
                tar.add(path, name, filter=_without_origin)
                return name

            for number, path in enumerate(dependencies.modules):
                place = f"modules/{number}"
                name = add(path, f"{place}/{path.name}")
                if path.suffix.lower() in PACKED and path.is_file():
                    packed.append((name, f"{name}.d"))
                    modules.append(f"{name}.d")
                elif path.is_dir():
                    # As in Flink, the content of a folder can be imported directly; a package also by its name.
                    modules += [place, name] if (path / "__init__.py").exists() else [name]
                else:
                    modules.append(place)
            for number, (path, target) in enumerate(dependencies.archives):
                archives.append((add(path, f"archives/{number}/{path.name}"), target))
            requirements = add(dependencies.requirements, _REQUIREMENTS) if dependencies.requirements else ""
            wheels = add(dependencies.wheels, _WHEELS) if dependencies.wheels else ""
            cached = {}
            for number, one in enumerate(dependencies.cached):
                cached[one.name] = f"cached/{number}/{Path(one.path).name}"
                tar.add(one.path, cached[one.name], filter=_executable if one.executable else _equal)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    # Not *.tar: Spark would unpack it into the executor's folder, which all jobs share.
    path = Path(file.name).rename(Path(file.name).with_name(f"penstock-{digest[:32]}.bundle"))
    files = JobFiles(
        path=[],
        bundle=path.name,
        modules=modules,
        packed=packed,
        archives=archives,
        requirements=requirements,
        wheels=wheels,
        cached=cached,
    )
    return files, path


def _without_origin(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Clear owner and time of an entry, so that equal content gives equal bytes. Return None to leave the entry out."""
    name = entry.name.rsplit("/", 1)[-1]
    # These can't be imported, and are often large: .git, .venv, caches.
    if name == "__pycache__" or name.startswith("."):
        return None
    return _equal(entry)


def _executable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    if entry.isfile():
        entry.mode |= 0o100
    return _equal(entry)


def _equal(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Write the archive. Equal content gives equal bytes."""
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


@cache
def _folder() -> HeldDirectory:
    """Executors that start later also fetch the bundles of this session."""
    remove_abandoned()
    folder = HeldDirectory("bundles")
    atexit.register(folder.remove)
    return folder
