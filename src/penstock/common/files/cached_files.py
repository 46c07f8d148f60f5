"""Files that a program registers by names, for its functions: Flink's distributed cache.

`pipeline.cached-files` names them, as Flink writes it: `name:rules,path:'/data/rules.csv',executable:false;name:…`.
They travel with the job, and a worker says here where they are. Source: Flink docs, "Distributed Cache".
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
    """One of them. `executable`: whether functions may run it as a program."""

    name: str
    path: str
    executable: bool = False

    def __str__(self) -> str:
        """As the option has it."""
        executable = ",executable:true" if self.executable else ""
        return f"name:{_quoted(self.name)},path:{_quoted(self.path)}{executable}"


def cached_files_in(text: str) -> list[CachedFile]:
    """Read the option. Raises ConfigurationError for what it can't be, and for a name that is there twice."""
    files = [_file_in(entry) for entry in _ENTRY.findall(text) if entry.strip()]
    names = [file.name for file in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{CACHED_FILES.key}: several files are named {twice[0]!r}: give each its own name")
    return files


def with_file(text: str, path: str, name: str, executable: bool) -> str:
    """The option with one more file. Raises TypeError or ValueError for no name or path, or another one's name."""
    if not isinstance(name, str):
        raise TypeError(f"a cached file is found by a name, got {name!r}")
    if not name or not path:
        raise ValueError(f"a cached file has a path and a name, got {path!r} and {name!r}")
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
            f"{CACHED_FILES.key} is name:NAME,path:'PATH', and several are separated by ';'; got {entry.strip()!r}"
        )
    return CachedFile(parts["name"], parts["path"], parts.get("executable", "").lower() == "true")


def _unquoted(text: str) -> str:
    quote = text[:1]
    return text[1:-1].replace(quote * 2, quote) if quote in ("'", '"') else text


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


class DistributedCache:
    """The files that a program has registered, where this worker has them. Source: Flink's class of this name."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def get_file(self, name: str) -> Path:
        """The path of the file or folder that `env.register_cached_file(path, name)` has registered.

        It is shared by the workers of an executor: read it, don't write to it. Raises ProgramError if there is none.
        """
        path = self._files.get(name)
        if path is None:
            known = ", ".join(map(repr, self._files)) or "none"
            raise ProgramError(
                f"no file is registered as {name!r}; registered: {known}. env.register_cached_file(path, {name!r})"
            )
        return path


_provided: Mapping[str, Path] = {}


def provide(files: Mapping[str, Path]) -> None:
    """This process is a worker of a job with these files: they are what functions find from now on."""
    global _provided
    _provided = files


def provided() -> DistributedCache:
    """What this worker has."""
    return DistributedCache(_provided)
