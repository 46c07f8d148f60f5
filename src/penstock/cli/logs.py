"""`penstock logs`: what a job has logged, on its driver, in its workers and in Spark's JVM."""

from __future__ import annotations

import contextlib
import heapq
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

import typer

from penstock.common.errors import PenstockError
from penstock.logs.folders import find, is_held, jobs_in
from penstock.logs.settings import DIRECTORY
from penstock.spark.driver.java import cache_directory

_BEGIN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")
_OLD = re.compile(r".+\.log\.\d+")
_EVERY_S = 0.3

Job = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]", show_default=False, help="Id of the job, a prefix of it, or its name; default: the newest."
    ),
]


def logs(
    job: Job = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended; or Ctrl-C.")] = False,
    path: Annotated[bool, typer.Option("--path", help="Print the folder and nothing else.")] = False,
) -> None:
    """Print the logs of a job that runs on this machine, or has run: driver, workers and Spark's JVM, by time.

    The folder is named on standard error. It stays for a while: docs/how-to/logs.md says how long, and
    how large it becomes.
    """
    folder = _folder(job)
    if path:
        typer.echo(str(folder))
        return
    typer.echo(f"logs in {folder}", err=True)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        show(folder, follow)


def _folder(job: str | None) -> Path:
    directory = cache_directory(os.environ) / DIRECTORY
    if job is None:
        jobs = jobs_in(directory)
        if not jobs:
            typer.echo("there are no logs of any job on this machine", err=True)
            raise typer.Exit(1)
        return jobs[-1][0].resolve()
    try:
        return find(directory, job)
    except PenstockError as error:
        typer.echo(f"penstock.{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from None


def show(folder: Path, follow: bool = False) -> None:
    """Print what is in the folder; `follow`: and what is added, until no process writes to it."""
    old = [path for path in folder.glob("*.log.*") if _OLD.fullmatch(path.name)]
    # Oldest first: the highest number.
    old.sort(key=lambda path: -int(path.suffix[1:]))
    followed: dict[Path, _FollowedFile] = {}
    streams = [_entries(_lines_of(path), path) for path in old]
    for path in sorted(folder.glob("*.log")):
        followed[path] = _FollowedFile(path)
        streams.append(_entries(followed[path].new_lines(), path))
    _print(streams)
    while follow:
        ends = not is_held(folder)
        for path in folder.glob("*.log"):
            followed.setdefault(path, _FollowedFile(path))
        # What was written before the job ended is read once more after that was seen.
        _print([_entries(file.new_lines(), path) for path, file in sorted(followed.items())])
        if ends:
            return
        time.sleep(_EVERY_S)


class _FollowedFile:
    """A log that is still written: it is read on from where it was left, and from its beginning if it was rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def new_lines(self) -> Iterator[str]:
        """The lines since the last call, complete or not."""
        if self._file is not None:
            yield from self._file
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._file.fileno()), self._path.stat()):
                    return
            self._file.close()
            self._file = None
        with contextlib.suppress(FileNotFoundError):
            self._file = self._path.open(encoding="utf-8", errors="replace")
            yield from self._file


def _lines_of(path: Path) -> Iterator[str]:
    # It may be rotated away meanwhile.
    with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as file:
        yield from file


def _entries(lines: Iterator[str], path: Path) -> Iterator[tuple[str, str, str]]:
    """A line with a time and those behind it, which have none; the time first, by which all files are merged."""
    entry, at = "", ""
    for line in lines:
        if _BEGIN.match(line):
            if entry:
                yield at, path.name, entry
            entry, at = line, line[:23]
        else:
            entry += line
    if entry:
        yield at, path.name, entry


def _print(streams: list[Iterator[tuple[str, str, str]]]) -> None:
    for _, name, entry in heapq.merge(*streams):
        where = name.partition(".log")[0]
        text = entry if entry.endswith("\n") else f"{entry}\n"
        typer.echo(f"{where}: {text}", nl=False)
