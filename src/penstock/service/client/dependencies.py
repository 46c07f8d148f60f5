"""The files that a program declares to travel with it: `python.files` and related options, `pipeline.cached-files`.

Keys, separators and meaning are PyFlink's. Source: Flink docs, "Dependency Management" of the Python API.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.common.configuration import Configuration, options
from penstock.common.configuration.options import CACHED_FILES
from penstock.common.errors import ConfigurationError
from penstock.common.files.cached_files import CachedFile, cached_files_in

BETWEEN = ","
"""Separates the entries of a setting."""
TARGET = "#"
"""Separates an archive from its target, and requirements from the folder of their packages."""


@dataclasses.dataclass(frozen=True)
class Dependencies:
    """Files of this machine, all of which exist."""

    modules: tuple[Path, ...] = ()
    """Modules, packages, folders, and archives of these."""
    archives: tuple[tuple[Path, str], ...] = ()
    """Archives, and the folder into which each is extracted."""
    requirements: Path | None = None
    wheels: Path | None = None
    cached: tuple[CachedFile, ...] = ()
    """Files and folders for functions, by name, with absolute paths."""

    @staticmethod
    def of(configuration: Configuration) -> Dependencies:
        """Return the files that a configuration names.

        Raises ConfigurationError for one that is missing or can't be sent.
        """
        get = configuration.get
        modules = [_existing(entry, options.PYTHON_FILES) for entry in _entries(get(options.PYTHON_FILES))]
        archives = [_archive(entry) for entry in _entries(get(options.PYTHON_ARCHIVES))]
        targets = [target for _, target in archives]
        for target in targets:
            if targets.count(target) > 1:
                raise ConfigurationError(
                    f"{options.PYTHON_ARCHIVES.key}: several archives would be extracted to '{target}': give each a "
                    "target of its own, env.add_python_archive(path, target_dir)"
                )
        requirements, _, wheels = (get(options.PYTHON_REQUIREMENTS) or "").partition(TARGET)
        option = options.PYTHON_REQUIREMENTS
        return Dependencies(
            modules=tuple(modules),
            archives=tuple(archives),
            requirements=_existing(requirements, option, "file") if requirements else None,
            wheels=_existing(wheels, option, "folder") if wheels else None,
            cached=tuple(
                file._replace(path=str(_existing(file.path, CACHED_FILES)))
                for file in cached_files_in(get(CACHED_FILES) or "")
            ),
        )

    def with_modules(self, modules: Iterable[Path]) -> Dependencies:
        """Return a copy with further modules, which come last on the path."""
        return dataclasses.replace(self, modules=(*self.modules, *modules))


def _entries(text: str | None) -> list[str]:
    return [entry.strip() for entry in (text or "").split(BETWEEN) if entry.strip()]


def _archive(entry: str) -> tuple[Path, str]:
    name, _, target = entry.partition(TARGET)
    path = _existing(name, options.PYTHON_ARCHIVES, "file")
    target = target or path.name
    place = PurePosixPath(target)
    if place.is_absolute() or ".." in place.parts:
        raise ConfigurationError(
            f"{options.PYTHON_ARCHIVES.key}: an archive is extracted below the workers' working directory, so its "
            f"target is a relative path without '..', got '{target}'"
        )
    return path, target


def _existing(name: str, option: ConfigOption[Any], kind: str = "file or folder") -> Path:
    path = Path(name.removeprefix("file://")).absolute()
    exists = {"file": path.is_file, "folder": path.is_dir}.get(kind, path.exists)
    if not exists():
        raise ConfigurationError(f"{option.key}: there is no {kind} {name!r} on this machine (looked for {path})")
    return path
