"""Run a user's file like `python file.py`, and report its errors without penstock's own frames."""

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

# With the separator at the end: the name of the package penstock_examples has the same prefix.
_PENSTOCK = f"{Path(penstock.__file__).parent}{os.sep}"
_PYFLINK = (
    "To run a PyFlink program unchanged, put --pyflink before the file; or import penstock instead of pyflink in it"
)
# Frames between our caller and the first line of the script.
_STARTERS = (__file__, runpy.run_path.__code__.co_filename)


def run_script(path: Path, arguments: Sequence[str]) -> None:
    """Run the file as `__main__`, with its own sys.argv and its own directory first on sys.path.

    Prints an error of penstock as a message, any other error with Python's traceback, and then raises typer.Exit(1).
    Propagates SystemExit and KeyboardInterrupt.
    """
    with _interpreter_of(path, arguments):
        try:
            runpy.run_path(str(path), run_name="__main__")
        except PenstockError as error:
            typer.echo(_message(error), err=True)
            raise typer.Exit(1) from None
        except Exception as error:
            # Python's own hook suggests names for misspelled ones; `traceback` does so only from 3.12 on.
            trace = _from_script(error.__traceback__)
            sys.excepthook(type(error), error.with_traceback(trace), trace)
            misses_pyflink = isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == "pyflink"
            if misses_pyflink and not pyflink_alias.is_installed():
                typer.echo(_PYFLINK, err=True)
            raise typer.Exit(1) from None


def run_for_graphs(path: Path, arguments: Sequence[str], found: Callable[[], Sequence[object]]) -> None:
    """Run the file to obtain its job graphs, which `found` returns. Only print an error after the first graph."""
    try:
        run_script(path, arguments)
    except (typer.Exit, SystemExit):
        # A program often fails after its first execute() here, because it gets no results.
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
    # The notes say where the logs are.
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
