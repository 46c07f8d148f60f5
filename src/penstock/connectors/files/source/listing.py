"""Lists input files: searches directories, matches patterns, skips hidden and unfinished files."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from pyarrow import fs

from penstock.common.errors import SourceError
from penstock.connectors.files.split import FoundFile
from penstock.connectors.files.storage import rejoin, resolve

HIDDEN_PREFIXES = (".", "_")
IN_PROGRESS_SUFFIXES = (".inprogress", ".tmp", ".filepart", "._COPYING_")
_WITHOUT_DIRECTORIES = ("s3", "gcs", "abfs")
_MAGIC = re.compile(r"[*?\[]")


def list_files(paths: Sequence[str], *, must_exist: bool = True) -> list[FoundFile]:
    """Return the files that match `paths`, each once, ordered by path.

    A path is a file (always accepted, whatever its name), a directory (searched recursively) or a pattern with `*`,
    `?`, `[…]` and `**`. Directory searches and patterns skip files and directories whose names start with `.` or `_`
    or have the suffix of an unfinished file. Raises SourceError for a missing path and names what exists there;
    `must_exist` False allows a pattern without matches, and a directory of an object store without an object yet.
    """
    found: dict[str, FoundFile] = {}
    for path in paths:
        for file in _expand(path, must_exist):
            found[file.path] = file
    return [found[path] for path in sorted(found)]


def is_visible(name: str) -> bool:
    """Return False for names that mark a file as hidden or unfinished."""
    return not name.startswith(HIDDEN_PREFIXES) and not name.endswith(IN_PROGRESS_SUFFIXES)


def _expand(path: str, must_exist: bool) -> Iterator[FoundFile]:
    try:
        file_system, inner = resolve(path)
        info = file_system.get_file_info(inner)
        if info.type == fs.FileType.File:
            yield FoundFile(path, info.size)
        elif info.type == fs.FileType.Directory:
            for each in _walk(file_system, info.path):
                yield FoundFile(rejoin(path, info.path, each.path), each.size)
        elif _MAGIC.search(inner):
            yield from _matching(file_system, path, inner, must_exist)
        elif must_exist or not _may_come(file_system, inner):
            raise SourceError(_not_found(file_system, path, inner))
    except OSError as error:
        raise SourceError(f"{path}: can't be listed: {error}") from error


def _may_come(file_system: fs.FileSystem, inner: str) -> bool:
    """Whether a directory that is not there is one of a store that has none: it begins with its first object."""
    if file_system.type_name not in _WITHOUT_DIRECTORIES:
        return False
    bucket = inner.strip("/").partition("/")[0]
    return bool(file_system.get_file_info(bucket).type is fs.FileType.Directory)


def _walk(file_system: fs.FileSystem, directory: str) -> Iterator[fs.FileInfo]:
    for info in _children(file_system, directory):
        if info.type == fs.FileType.File:
            yield info
        elif info.type == fs.FileType.Directory:
            yield from _walk(file_system, info.path)


def _children(file_system: fs.FileSystem, directory: str) -> list[fs.FileInfo]:
    """Return visible entries; none if the directory was deleted in the meantime, as in a slightly later listing."""
    infos = file_system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    return [info for info in infos if is_visible(info.base_name)]


def _matching(file_system: fs.FileSystem, path: str, inner: str, must_exist: bool) -> Iterator[FoundFile]:
    segments = inner.split("/")
    first = next(i for i, segment in enumerate(segments) if _MAGIC.search(segment))
    root = "/".join(segments[:first]) or ("/" if inner.startswith("/") else "")
    shown_root = path[: len(path) - len("/".join(segments[first:]))]
    if file_system.get_file_info(root).type != fs.FileType.Directory:
        raise SourceError(_not_found(file_system, shown_root.rstrip("/") or "/", root))
    empty = True
    for info in _match(file_system, root, segments[first:]):
        for each in _walk(file_system, info.path) if info.type == fs.FileType.Directory else (info,):
            empty = False
            yield FoundFile(rejoin(shown_root, root, each.path), each.size)
    if empty and must_exist:
        raise SourceError(f"{path}: no file matches. {_existing_entries(_children(file_system, root), shown_root)}")


def _match(file_system: fs.FileSystem, directory: str, segments: Sequence[str]) -> Iterator[fs.FileInfo]:
    head, rest = segments[0], segments[1:]
    pattern = re.compile(_segment_pattern(head), re.DOTALL)
    if head == "**" and rest:
        yield from _match(file_system, directory, rest)
    for info in _children(file_system, directory):
        is_directory = info.type == fs.FileType.Directory
        if head == "**":
            if is_directory:
                yield from _match(file_system, info.path, segments)
            elif not rest:
                yield info
        elif pattern.fullmatch(info.base_name):
            if not rest:
                yield info
            elif is_directory:
                yield from _match(file_system, info.path, rest)


def _segment_pattern(segment: str) -> str:
    parts = re.findall(r"\[!?[^\]]+\]|\*+|\?|.", segment, re.DOTALL)
    return "".join(map(_part_pattern, parts))


def _part_pattern(part: str) -> str:
    if part.startswith("*"):
        return ".*"
    if part == "?":
        return "."
    if len(part) > 2 and part.startswith("["):
        negated = part.startswith("[!")
        inside = part[2 if negated else 1 : -1].replace("\\", "\\\\").replace("^", "\\^").replace("[", "\\[")
        return f"[{'^' if negated else ''}{inside}]"
    return re.escape(part)


def _not_found(file_system: fs.FileSystem, path: str, inner: str) -> str:
    """Build the message for a missing path: nearest existing ancestor directory, and similar names in it."""
    missing, parent = posixpath.basename(inner), posixpath.dirname(inner)
    while parent and file_system.get_file_info(parent).type != fs.FileType.Directory:
        if parent == posixpath.dirname(parent):
            break
        missing, parent = posixpath.basename(parent), posixpath.dirname(parent)
    names = {info.base_name: info for info in file_system.get_file_info(fs.FileSelector(parent, allow_not_found=True))}
    close = difflib.get_close_matches(missing, names, n=3, cutoff=0.5)
    if close:
        return f"{path}: there is no such file or directory. Did you mean {' or '.join(close)} in {parent}?"
    return f"{path}: there is no such file or directory. {_existing_entries(names.values(), parent)}"


def _existing_entries(infos: Iterable[fs.FileInfo], directory: str) -> str:
    names = sorted(info.base_name for info in infos)
    if not names:
        return f"{directory} is empty or missing."
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"In {directory} there is: {', '.join(names[:5])}{more}."
