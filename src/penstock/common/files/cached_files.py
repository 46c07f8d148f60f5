"""Files that a program registers by name for its functions: Flink's distributed cache.

`pipeline.cached-files` lists them in Flink's syntax: `name:rules,path:'/data/rules.csv',executable:false;name:…`. They
are sent with the job. Each worker registers its copies here. Source: Flink docs, "Distributed Cache".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.common.configuration.options import CACHED_FILES
from penstock.common.errors import ConfigurationError, ProgramError

_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_ENTRY = re.compile(rf"(?:{_QUOTED}|[^;'\"])+")
_PART = re.compile(rf"\s*(name|path|executable)\s*:\s*({_QUOTED}|[^,'\"]*?)\s*(?:,|\Z)")


class CachedFile(NamedTuple):
    """A registered file. `executable`: whether functions may run it as a program."""

    name: str
    path: str
    executable: bool = False

    def __str__(self) -> str:
        """Format the file as in the option."""
        executable = ",executable:true" if self.executable else ""
        return f"name:{_quoted(self.name)},path:{_quoted(self.path)}{executable}"


def cached_files_in(text: str) -> list[CachedFile]:
    """Parse the option. Raises ConfigurationError for invalid text and for duplicate names."""
    files = [_file_in(entry) for entry in _ENTRY.findall(text) if entry.strip()]
    names = [file.name for file in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{CACHED_FILES.key}: several files are named {twice[0]!r}: give each its own name")
    return files


def with_file(text: str, path: str, name: str, executable: bool) -> str:
    """Return the option's text with one more file.

    Raises TypeError if the name is not a str, ValueError if name or path is empty or the name is in use.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a cached file must be a str, got {name!r}")
    if not name or not path:
        raise ValueError(f"a cached file needs a path and a name, got {path!r} and {name!r}")
    entry = str(CachedFile(name, path, executable))
    if any(file.name == name for file in cached_files_in(text)):
        raise ValueError(f"another cached file is named {name!r}: give each its own name")
    return f"{text};{entry}" if text else entry


def _file_in(entry: str) -> CachedFile:
    parts: dict[str, str] = {}
    end = 0
    while (match := _PART.match(entry, end)) is not None and match.end() > end:
        parts[match[1]] = _unquoted(match[2])
        end = match.end()
    if end < len(entry) or not parts.get("name") or not parts.get("path"):
        raise ConfigurationError(
            f"{CACHED_FILES.key} must have entries name:NAME,path:'PATH' separated by ';', got {entry.strip()!r}"
        )
    return CachedFile(parts["name"], parts["path"], parts.get("executable", "").lower() == "true")


def _unquoted(text: str) -> str:
    quote = text[:1]
    return text[1:-1].replace(quote * 2, quote) if quote in ("'", '"') else text


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


class DistributedCache:
    """The registered files, as paths of this worker. Source: Flink's class of this name."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def get_file(self, name: str) -> Path:
        """Return the path of the file or folder registered by `env.register_cached_file(path, name)`.

        The workers of an executor share it: don't write to it. Raises ProgramError if the name is not registered.
        """
        path = self._files.get(name)
        if path is None:
            known = ", ".join(map(repr, self._files)) or "none"
            raise ProgramError(
                f"no file is registered as {name!r}; registered: {known}. Call env.register_cached_file(path, {name!r})"
            )
        return path


_provided: Mapping[str, Path] = {}


def provide(files: Mapping[str, Path]) -> None:
    """Set the files that functions in this worker process find."""
    global _provided
    _provided = files


def provided() -> DistributedCache:
    """Return the files of this worker process."""
    return DistributedCache(_provided)
