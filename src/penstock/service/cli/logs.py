"""`penstock logs`: print the logs of a job's driver, workers and JVM."""

from __future__ import annotations

import contextlib
import heapq
import os
import re
import time
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Annotated, TextIO

import typer

from penstock.common.errors import PenstockError
from penstock.common.files.cache_directory import cache_directory
from penstock.hosts.logs.folders import find, is_locked, jobs_in
from penstock.hosts.logs.settings import DIRECTORY
from penstock.service.cli.job_output import show_output

_BEGIN = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")
_LOG = re.compile(r".+\.log(\.\d+)?")
_EVERY_S = 0.3

Job = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]", show_default=False, help="Id of the job, a prefix of it, or its name; default: the newest."
    ),
]


def logs(
    job: Job = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until the job ends, or Ctrl-C.")
    ] = False,
    path: Annotated[bool, typer.Option("--path", help="Print only the path of the folder.")] = False,
    output: Annotated[
        bool, typer.Option("--output", help="Print the standard output of a job of a cluster instead.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            "-m",
            metavar="HOST:PORT",
            show_default=False,
            help="With --output: the job's cluster, if it is not on this machine.",
        ),
    ] = None,
) -> None:
    """Print the logs of a job of this machine, running or ended: driver, workers and Spark's JVM, ordered by time.

    A job of a cluster prints, with stream.print() for example, to its cluster: --output shows that.

    The path of the folder goes to standard error. See docs/how-to/logs.md for how long logs are kept, and how
    large they become.
    """
    if output:
        try:
            with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
                show_output(job, follow, cluster)
        except PenstockError as error:
            raise _exit_with(error) from None
        return
    if cluster is not None:
        raise typer.BadParameter("-m needs --output: it names the cluster that keeps the output", param_hint="-m")
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
        raise _exit_with(error) from None


def _exit_with(error: PenstockError) -> typer.Exit:
    typer.echo(f"penstock.{type(error).__name__}: {error}", err=True)
    return typer.Exit(1)


def show(folder: Path, follow: bool = False) -> None:
    """Print the logs in the folder; with `follow`, also new lines, until no process writes to the folder."""
    files = _FollowedFiles(folder)
    _print(files)
    while follow:
        ends = not is_locked(folder)
        # Read once more after the job has ended: lines may have come between the last read and its end.
        _print(files)
        if ends:
            return
        time.sleep(_EVERY_S)


class _FollowedFiles:
    """Read the logs of a folder, each from where the last read ended, even if it was rotated in the meantime.

    A file is identified by its inode, since rotation renames it. It stays open while it has a name, so that no other
    file can get its inode.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[tuple[int, int], tuple[str, TextIO]] = {}

    def new_entries(self) -> list[Iterator[tuple[str, str, str]]]:
        """Return the lines since the last call, complete or not: per file, rotated ones first, since they are older."""
        # A file that is rotated between two steps of a look has no known name then; the next look finds it.
        while self._has_found_more():
            pass
        entries = [_entries(file, name) for name, file in self._files.values()]
        for inode, (_, file) in list(self._files.items()):
            # Rotation has removed it: read it a last time and close it.
            if os.fstat(file.fileno()).st_nlink == 0:
                del self._files[inode]
        return entries

    def _has_found_more(self) -> bool:
        found = sorted((path for path in self._folder.iterdir() if _LOG.fullmatch(path.name)), key=_age, reverse=True)
        before = len(self._files)
        for path in found:
            with contextlib.suppress(FileNotFoundError):
                file = path.open(encoding="utf-8", errors="replace")
                at = os.fstat(file.fileno())
                if (at.st_dev, at.st_ino) in self._files:
                    file.close()
                else:
                    self._files[at.st_dev, at.st_ino] = (path.name.partition(".log")[0], file)
        return len(self._files) > before


def _age(path: Path) -> int:
    """Return how often the file was rotated: 2 for `driver.log.2`."""
    suffix = path.suffix[1:]
    return int(suffix) if suffix.isdigit() else 0


def _entries(lines: Iterable[str], name: str) -> Iterator[tuple[str, str, str]]:
    """Group each line that has a time with the untimed lines after it. The time, first, is the sort key."""
    entry, at = "", ""
    for line in lines:
        if _BEGIN.match(line):
            if entry:
                yield at, name, entry
            entry, at = line, line[:23]
        else:
            entry += line
    if entry:
        yield at, name, entry


def _print(files: _FollowedFiles) -> None:
    for _, name, entry in heapq.merge(*files.new_entries(), key=itemgetter(0)):
        text = entry if entry.endswith("\n") else f"{entry}\n"
        typer.echo(f"{name}: {text}", nl=False)
