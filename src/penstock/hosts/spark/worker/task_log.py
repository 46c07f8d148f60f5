"""Where `print` and `logging` of users' functions go in a worker: to the job's folder, and on to where Spark has it.

Each line is marked with operator and subtask. Which operator it is, is looked up in the stack when a line is written:
what does not write pays nothing. The worker's own standard error is the terminal of a job on this machine, and the log
of an executor on a cluster. Source: Flink's `taskmanager.system-out.mode`, which is LOG and DEFAULT here at once.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from penstock.engine.runtime.operators.operator import Operator
from penstock.hosts.logs.file import LogFile
from penstock.hosts.logs.folders import HeldFolder
from penstock.hosts.logs.format import LogFormat
from penstock.hosts.logs.remote_log_lines import RemoteLogLines
from penstock.hosts.logs.settings import PLACE, LogSettings, worker_log

_OURS = "penstock"
_PRINTED_MOST = 1 << 16
"""Characters of a line that does not end: beyond them it is written as several lines."""


class TaskLog:
    """The output of the slots of a level that a worker hosts, from `open` to `close`.

    Without settings, output stays where it was. What no operator writes goes to the log of the first slot.
    """

    def __init__(self, settings: LogSettings | None, level: int, slots: Sequence[int]) -> None:
        self._settings = settings
        self._level = level
        self._slots = slots
        self._folder: HeldFolder | None = None
        self._before: tuple[list[logging.Handler], int] = [], logging.WARNING
        self._streams = sys.stdout, sys.stderr
        self._handler: _TaskHandler | None = None
        self._logs: dict[int, _SlotLog] = {}

    def open(self) -> None:
        """From now on lines of this process go to the log. Raises nothing: without a folder they go on as before."""
        settings = self._settings
        if settings is None:
            return
        with contextlib.suppress(OSError):
            self._folder = HeldFolder(settings)
            is_far = not _is_drivers(settings)
            for slot in self._slots:
                self._logs[slot] = _SlotLog(LogFile(settings, worker_log(self._level, slot), of_task=True), is_far)
        self._streams = sys.stdout, sys.stderr
        place = f"level {self._level} slot {self._slots[0]}"
        self._handler = handler = _TaskHandler(self._logs, self._streams[1], place)
        root = logging.getLogger()
        self._before = root.handlers[:], root.level
        root.handlers[:] = [handler]
        root.setLevel(settings.level)
        sys.stdout = _Lines(self._streams[0], lambda line: handler.print_line("stdout", logging.INFO, line))
        sys.stderr = _Lines(self._streams[1], lambda line: handler.print_line("stderr", logging.WARNING, line))

    @property
    def is_far(self) -> bool:
        """Whether the driver does not see the folder."""
        return any(log.far is not None for log in self._logs.values())

    def take_far(self, slot: int) -> str:
        """Return the lines of a slot since the last call, if the driver does not see the folder. For any thread."""
        log = self._logs.get(slot)
        return log.far.take() if log is not None and log.far is not None else ""

    def close(self) -> None:
        """Write what is left of lines that have not ended; output goes where it went before."""
        if self._handler is None:
            return
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Lines):
                stream.end_line()
        sys.stdout, sys.stderr = self._streams
        root = logging.getLogger()
        root.handlers[:], level = self._before
        root.setLevel(level)
        self._handler.close()
        self._handler = None
        if self._folder is not None:
            self._folder.release()


def _is_drivers(settings: LogSettings) -> bool:
    """Whether the driver has this very folder: it has this machine's disk, or both have another one's."""
    try:
        return (Path(settings.folder) / PLACE).read_text() == settings.place
    except FileNotFoundError:
        return not settings.place


class _SlotLog:
    """The file of one slot, and its lines for a driver that does not see the file."""

    def __init__(self, file: LogFile, is_far: bool) -> None:
        self._file = file
        self.far = RemoteLogLines(f"{file.baseFilename} on {socket.gethostname()}") if is_far else None

    def write(self, record: logging.LogRecord) -> None:
        self._file.handle(record)
        if self.far is not None:
            self.far.add(self._file.format(record))

    def close(self) -> None:
        self._file.close()


class _TaskHandler(logging.Handler):
    """Writes a record to the log of its slot, and a shorter line to the terminal. `place`: where no operator writes."""

    def __init__(self, logs: Mapping[int, _SlotLog], terminal: TextIO, place: str) -> None:
        super().__init__()
        self._logs = logs
        self._first = next(iter(logs.values()), None)
        self._terminal = terminal
        self._place = place
        self._terminal_format = LogFormat("[%(task)s] %(levelname)s %(name)s: %(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            slot, _ = self._mark(record)
            is_users = record.name.partition(".")[0] != _OURS or record.levelno >= logging.WARNING
            self._write(slot, record, self._terminal_format.format(record) if is_users else None)
        except Exception:
            # As each handler of `logging`: a message whose parts don't fit is reported, and ends nothing.
            self.handleError(record)

    def print_line(self, name: str, level: int, line: str) -> None:
        """A line that was printed: it is written whatever level is asked for."""
        record = logging.LogRecord(name, level, "", 0, line, None, None)
        slot, place = self._mark(record)
        self._write(slot, record, f"[{place}] {line}")

    def _mark(self, record: logging.LogRecord) -> tuple[int | None, str]:
        slot, place = _operator_at_work() or (None, self._place)
        record.__dict__["task"] = place
        return slot, place

    def _write(self, slot: int | None, record: logging.LogRecord, text: str | None) -> None:
        """`text`: for the terminal; None: what penstock notes for itself is in the file alone."""
        log = self._first if slot is None else self._logs.get(slot, self._first)
        if log is not None:
            log.write(record)
        if text is None:
            return
        # When Spark has gone there is no terminal.
        with contextlib.suppress(OSError, ValueError):
            self._terminal.write(f"{text}\n")
            self._terminal.flush()

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        super().close()


class _Lines(io.TextIOBase):
    """Standard output or error, as lines. All but text goes past it, to `stream`."""

    def __init__(self, stream: TextIO, take: Callable[[str], None]) -> None:
        super().__init__()
        self._stream = stream
        self._take = take
        self._lock = threading.RLock()
        self._begun = ""

    def write(self, text: str) -> int:
        """Write the lines that are complete now."""
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            if len(self._begun) > _PRINTED_MOST:
                lines, self._begun = [*lines, self._begun], ""
        for line in lines:
            self._take(line)
        return len(text)

    def end_line(self) -> None:
        """No more comes of the line that was begun."""
        with self._lock:
            line, self._begun = self._begun, ""
        if line:
            self._take(line)

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """Of the stream behind it, for what writes there by itself."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """It is no terminal."""
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of the stream behind it."""
        return self._stream.encoding

    def __getattr__(self, name: str) -> Any:
        # `buffer` and what else a file has.
        return getattr(self._stream, name)


def _operator_at_work() -> tuple[int, str] | None:
    """Return the subtask, and the name, of the operator whose function this thread runs: (0, `map (1/2)`), or None."""
    frame = inspect.currentframe()
    while frame is not None:
        arguments = inspect.getargvalues(frame)
        operator = arguments.locals.get("self") if arguments.args[:1] == ["self"] else None
        # An operator that is not set up has no context yet.
        if isinstance(operator, Operator) and hasattr(operator, "context"):
            info = operator.context.info
            return info.subtask, f"{operator.name} ({info.subtask + 1}/{info.parallelism})"
        frame = frame.f_back
    return None
