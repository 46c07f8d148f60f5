"""List input files: search directories, match patterns, skip hidden and unfinished files."""

from __future__ import annotations

import difflib
import heapq
import posixpath
import re
from collections.abc import Hashable, Iterator, Sequence

from pyarrow import fs

from penstock.common.errors import SourceError
from penstock.connectors.files.source.tree import Entry, Tree, tree_of
from penstock.connectors.files.split import FoundFile
from penstock.connectors.files.storage import rejoin, resolve

HIDDEN_PREFIXES = (".", "_")
IN_PROGRESS_SUFFIXES = (".inprogress", ".tmp", ".filepart", "._COPYING_")
_WITHOUT_DIRECTORIES = ("s3", "gcs", "abfs")
_MAGIC = re.compile(r"[*?\[]")
_ALL = ("**",)


def list_files(paths: Sequence[str], *, must_exist: bool = True, skipped: set[str] | None = None) -> list[FoundFile]:
    """Return the files that match `paths`, each once, ordered by path.

    A path is a file (always accepted, whatever its name), a directory (searched recursively) or a pattern with `*`,
    `?`, `[…]` and `**`. Directory searches and patterns skip files and directories whose names start with `.` or `_` or
    have the suffix of an unfinished file, but not folders of partitions (`_day=1`). A directory with several links to
    it is searched once, by its own path if that is below the same root. Raise SourceError for a missing path and name
    what exists there; `must_exist` False allows a pattern without matches, and a directory of an object store without
    an object yet. Raise SourceError for a file whose name is not UTF-8; with `skipped` add its escaped path there
    instead, and skip the file.
    """
    found: dict[str, FoundFile] = {}
    for path in paths:
        for file in _expand(path, must_exist, skipped):
            found[file.path] = file
    return [found[path] for path in sorted(found)]


def is_visible(entry: Entry) -> bool:
    """Return False for names that mark a file or directory as hidden or unfinished.

    Folders of partitions are always visible. Source: Spark, `HadoopFSUtils.shouldFilterOutPathName`.
    """
    if entry.is_directory and "=" in entry.name:
        return not entry.name.startswith(".")
    return not entry.name.startswith(HIDDEN_PREFIXES) and not entry.name.endswith(IN_PROGRESS_SUFFIXES)


def _expand(path: str, must_exist: bool, skipped: set[str] | None) -> Iterator[FoundFile]:
    try:
        file_system, inner = resolve(path)
        tree = tree_of(file_system)
        info = file_system.get_file_info(inner)
        if info.type == fs.FileType.File:
            yield FoundFile(path, info.size)
        elif info.type == fs.FileType.Directory:
            for each in _matching(tree, info.path, _ALL, skipped):
                yield FoundFile(rejoin(path, info.path, each.path), each.size)
        elif _MAGIC.search(inner):
            yield from _of_pattern(
                file_system=file_system, tree=tree, path=path, inner=inner, must_exist=must_exist, skipped=skipped
            )
        elif must_exist or not _may_appear(file_system, inner):
            raise SourceError(_not_found(file_system, tree, path, inner))
    except (OSError, UnicodeError) as error:
        raise SourceError(f"cannot list {_shown(path)}: {error}") from error


def _may_appear(file_system: fs.FileSystem, inner: str) -> bool:
    """Return whether a missing directory is in an object store, where it appears with its first object."""
    if file_system.type_name not in _WITHOUT_DIRECTORIES:
        return False
    bucket = inner.strip("/").partition("/")[0]
    return bool(file_system.get_file_info(bucket).type is fs.FileType.Directory)


def _of_pattern(
    file_system: fs.FileSystem, tree: Tree, path: str, inner: str, must_exist: bool, skipped: set[str] | None
) -> Iterator[FoundFile]:
    segments = inner.split("/")
    first = next(i for i, segment in enumerate(segments) if _MAGIC.search(segment))
    root = "/".join(segments[:first]) or ("/" if inner.startswith("/") else "")
    shown_root = path[: len(path) - len("/".join(segments[first:]))]
    if file_system.get_file_info(root).type != fs.FileType.Directory:
        raise SourceError(_not_found(file_system, tree, shown_root.rstrip("/") or "/", root))
    empty = True
    for each in _matching(tree, root, segments[first:], skipped):
        empty = False
        yield FoundFile(rejoin(shown_root, root, each.path), each.size)
    if empty and must_exist:
        names = [child.name for child in tree.children(root) if is_visible(child)]
        raise SourceError(f"{path} matches no file. {_existing_entries(names, shown_root)}")


def _matching(tree: Tree, root: str, segments: Sequence[str], skipped: set[str] | None) -> Iterator[Entry]:
    """Yield the files below `root` that match, each once, in any order.

    A directory, known by its identity, is searched once for the same rest of the pattern, so that a link to a directory
    above it ends the search. Links come last, the oldest first: thus a file keeps its path when another link to it is
    created.
    """
    directories: list[tuple[Entry, tuple[str, ...]]] = [(tree.directory(root), tuple(segments))]
    # A heap: there may be thousands of links, and a list would be sorted again for each.
    links: list[tuple[int, str, Entry, tuple[str, ...]]] = []
    seen: set[tuple[Hashable, tuple[str, ...]]] = set()
    yielded: set[tuple[Hashable, str]] = set()
    while directories or links:
        directory, rest = directories.pop() if directories else heapq.heappop(links)[2:]
        if (directory.identity, rest) in seen:
            continue
        seen.add((directory.identity, rest))
        head, tail = rest[0], rest[1:]
        if head == "**" and tail:
            directories.append((directory, tail))
        pattern = _segment_pattern(head)
        for child in filter(is_visible, tree.children(directory.path)):
            if not pattern.fullmatch(child.name) or not _has_text_name(child, skipped):
                continue
            if child.is_directory:
                further = rest if head == "**" else tail or _ALL
                if child.linked_at_ns is None:
                    directories.append((child, further))
                else:
                    heapq.heappush(links, (child.linked_at_ns, child.path, child, further))
            elif not tail and (directory.identity, child.name) not in yielded:
                yielded.add((directory.identity, child.name))
                yield child


def _has_text_name(entry: Entry, skipped: set[str] | None) -> bool:
    """Return whether a name is valid text: checkpoints store paths, and libraries do not open other names."""
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        shown = _shown(entry.path)
        if skipped is None:
            raise SourceError(f"cannot read {shown}: its name is not UTF-8. Rename it") from None
        skipped.add(shown)
        return False
    return True


def _shown(path: str) -> str:
    """Return a path as text: bytes that are not UTF-8 are escaped."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _segment_pattern(segment: str) -> re.Pattern[str]:
    parts = re.findall(r"\[!?[^\]]+\]|\*+|\?|.", segment, re.DOTALL)
    try:
        return re.compile("".join(map(_part_pattern, parts)), re.DOTALL)
    except re.error as error:
        raise SourceError(f"{segment!r} in the path is not a valid pattern: {error}") from None


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


def _not_found(file_system: fs.FileSystem, tree: Tree, path: str, inner: str) -> str:
    """Build the message for a missing path: nearest existing ancestor directory, and similar names in it."""
    missing, parent = posixpath.basename(inner), posixpath.dirname(inner)
    while parent and file_system.get_file_info(parent).type != fs.FileType.Directory:
        if parent == posixpath.dirname(parent):
            break
        missing, parent = posixpath.basename(parent), posixpath.dirname(parent)
    names = [_shown(child.name) for child in tree.children(parent)]
    close = difflib.get_close_matches(missing, names, n=3, cutoff=0.5)
    if close:
        return f"{path} does not exist. Did you mean {' or '.join(close)} in {parent}?"
    return f"{path} does not exist. {_existing_entries(names, parent)}"


def _existing_entries(names: Sequence[str], directory: str) -> str:
    if not names:
        return f"{directory} is empty or missing."
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{directory} contains {', '.join(sorted(map(_shown, names))[:5])}{more}."
