"""Runs a user's file like `python file.py`, and reports its errors without penstock's own frames."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import typer

import penstock
from penstock.common.doors import pyflink_alias
from penstock.common.errors import JobCancelledError, JobError, PenstockError

# With the separator at the end: beside the package is that of the examples, whose name has the same prefix.
_PENSTOCK = f"{Path(penstock.__file__).parent}{os.sep}"
_PYFLINK = (
    "A PyFlink program runs unchanged with --pyflink, before the file; or write penstock for pyflink in its imports"
)
# Frames between our caller and the first line of the script.
_STARTERS = (__file__, runpy.run_path.__code__.co_filename)


def run_script(path: Path, arguments: Sequence[str]) -> None:
    """Run the file as `__main__`, with its own sys.argv and its own directory first on sys.path.

    An error of penstock is printed as a message, any other one with Python's traceback; then typer.Exit(1) is raised.
    SystemExit and KeyboardInterrupt are propagated.
    """
    with _interpreter_of(path, arguments):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except PenstockError as error:
            typer.echo(_message(error), err=True)
            raise typer.Exit(1) from None
        except Exception as error:
            # Python's own: it suggests names for misspelt ones, which `traceback` does from 3.12 on.
            trace = _from_script(error.__traceback__)
            sys.excepthook(type(error), error.with_traceback(trace), trace)
            misses_pyflink = isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == "pyflink"
            if misses_pyflink and not pyflink_alias.is_installed():
                typer.echo(_PYFLINK, err=True)
            raise typer.Exit(1) from None


def run_for_graphs(path: Path, arguments: Sequence[str], found: Callable[[], Sequence[object]]) -> None:
    """The same, for the graphs that its executor gets: `found` gives them. An error after the first is only told."""
    try:
        run_script(path, arguments)
    except (typer.Exit, SystemExit):
        # A program that gets no results to continue with may well fail after its first execute().
        if not found():
            raise


@contextmanager
def _interpreter_of(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    before = sys.argv, sys.path
    sys.argv = [str(path), *arguments]
    sys.path = [str(path.resolve().parent), *sys.path[1:]]
    try:
        yield
    finally:
        sys.argv, sys.path = before


def _from_script(trace: TracebackType | None) -> TracebackType | None:
    while trace and trace.tb_frame.f_code.co_filename in _STARTERS:
        trace = trace.tb_next
    return trace


def _message(error: PenstockError) -> str:
    # Notes: where the logs are.
    text = "\n".join((f"penstock.{type(error).__name__}: {error}", *getattr(error, "__notes__", ())))
    # The message of a job's failure already names the function; the line that called execute() would mislead.
    if isinstance(error, (JobError, JobCancelledError)):
        return text
    call = None
    for frame in traceback.extract_tb(_from_script(error.__traceback__)):
        if frame.filename.startswith(_PENSTOCK):
            break
        call = frame
    if call:
        text += f'\n  File "{call.filename}", line {call.lineno}: {call.line}'
    return text
