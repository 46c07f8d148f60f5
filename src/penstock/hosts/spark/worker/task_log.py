"""Write the output of users' functions (`print`, `logging`) in a worker to the job's log, and to standard error.

Each line names the operator and the subtask, which are looked up in the stack when a line is written, so code that
writes nothing pays nothing. The worker's standard error is the terminal of a job on this machine, or the log of an
executor on a cluster. Source: Flink's `taskmanager.system-out.mode`; this is both LOG and DEFAULT.
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
from penstock.hosts.logs.folders import LockedFolder
from penstock.hosts.logs.format import LogFormat
from penstock.hosts.logs.remote_log_lines import RemoteLogLines
from penstock.hosts.logs.settings import PLACE, LogSettings, worker_log

_PENSTOCK = "penstock"
_LINE_MAX = 1 << 16
"""Maximum length of an unfinished line (characters). A longer one is written as several lines."""


class TaskLog:
    """Log the output of the slots that a worker hosts, from `open` to `close`.

    Without settings, output is not changed. Output that does not come from an operator goes to the first slot's log.
    """

    def __init__(self, settings: LogSettings | None, level: int, slots: Sequence[int]) -> None:
        self._settings = settings
        self._level = level
        self._slots = slots
        self._folder: LockedFolder | None = None
        self._original: tuple[list[logging.Handler], int] = [], logging.WARNING
        """Handlers and level of the root logger before `open`."""
        self._streams = sys.stdout, sys.stderr
        self._handler: _TaskHandler | None = None
        self._logs: dict[int, _SlotLog] = {}

    def open(self) -> None:
        """Start to log lines of this process. Raises nothing: without a folder, lines go only to standard error."""
        settings = self._settings
        if settings is None:
            return
        with contextlib.suppress(OSError):
            self._folder = LockedFolder(settings)
            is_remote = not _is_shared_with_driver(settings)
            for slot in self._slots:
                file = LogFile(settings, worker_log(self._level, slot), names_task=True)
                self._logs[slot] = _SlotLog(file, is_remote)
        self._streams = sys.stdout, sys.stderr
        default_origin = f"level {self._level} slot {self._slots[0]}"
        self._handler = handler = _TaskHandler(self._logs, self._streams[1], default_origin)
        root = logging.getLogger()
        self._original = root.handlers[:], root.level
        root.handlers[:] = [handler]
        root.setLevel(settings.level)
        sys.stdout = _Lines(self._streams[0], lambda line: handler.print_line("stdout", logging.INFO, line))
        sys.stderr = _Lines(self._streams[1], lambda line: handler.print_line("stderr", logging.WARNING, line))

    @property
    def is_remote(self) -> bool:
        """Return whether the driver cannot see the folder, so that heartbeats must carry the lines."""
        return any(log.remote_lines is not None for log in self._logs.values())

    def drain_remote_lines(self, slot: int) -> str:
        """Return the lines of a slot since the last call if the driver cannot see the folder, or "". For any thread."""
        log = self._logs.get(slot)
        return log.remote_lines.drain() if log is not None and log.remote_lines is not None else ""

    def close(self) -> None:
        """Write unfinished lines, and restore the original output."""
        if self._handler is None:
            return
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Lines):
                stream.end_line()
        sys.stdout, sys.stderr = self._streams
        root = logging.getLogger()
        root.handlers[:], level = self._original
        root.setLevel(level)
        self._handler.close()
        self._handler = None
        if self._folder is not None:
            self._folder.release()


def _is_shared_with_driver(settings: LogSettings) -> bool:
    """Return whether the driver sees this folder: it is on this machine, or both have mounted the same disk."""
    try:
        return (Path(settings.folder) / PLACE).read_text() == settings.place
    except FileNotFoundError:
        return not settings.place


class _SlotLog:
    """Write the log file of one slot, and collect its lines for a driver that cannot see the file."""

    def __init__(self, file: LogFile, is_remote: bool) -> None:
        self._file = file
        full_log = f"{file.baseFilename} on {socket.gethostname()}"
        self.remote_lines = RemoteLogLines(full_log) if is_remote else None

    def write(self, record: logging.LogRecord) -> None:
        self._file.handle(record)
        if self.remote_lines is not None:
            self.remote_lines.add(self._file.format(record))

    def close(self) -> None:
        self._file.close()


class _TaskHandler(logging.Handler):
    """Write each record to the log of its slot, and a shorter line to the terminal.

    `default_origin`: the origin of lines that do not come from an operator.
    """

    def __init__(self, logs: Mapping[int, _SlotLog], terminal: TextIO, default_origin: str) -> None:
        super().__init__()
        self._logs = logs
        self._first = next(iter(logs.values()), None)
        self._terminal = terminal
        self._default_origin = default_origin
        self._terminal_format = LogFormat("[%(task)s] %(levelname)s %(name)s: %(message)s")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            slot, _ = self._set_origin(record)
            is_shown = record.name.partition(".")[0] != _PENSTOCK or record.levelno >= logging.WARNING
            self._write(slot, record, self._terminal_format.format(record) if is_shown else None)
        except Exception:
            # As in each handler of `logging`: report a message whose arguments do not fit, and continue.
            self.handleError(record)

    def print_line(self, name: str, level: int, line: str) -> None:
        """Write a printed line, whatever the configured level is."""
        record = logging.LogRecord(name=name, level=level, pathname="", lineno=0, msg=line, args=None, exc_info=None)
        slot, origin = self._set_origin(record)
        self._write(slot, record, f"[{origin}] {line}")

    def _set_origin(self, record: logging.LogRecord) -> tuple[int | None, str]:
        slot, origin = _current_operator() or (None, self._default_origin)
        record.__dict__["task"] = origin
        return slot, origin

    def _write(self, slot: int | None, record: logging.LogRecord, text: str | None) -> None:
        """Write a record to its file, and `text` to the terminal; None: not to the terminal."""
        log = self._first if slot is None else self._logs.get(slot, self._first)
        if log is not None:
            log.write(record)
        if text is None:
            return
        # After Spark has ended, the terminal may be closed.
        with contextlib.suppress(OSError, ValueError):
            self._terminal.write(f"{text}\n")
            self._terminal.flush()

    def close(self) -> None:
        for log in self._logs.values():
            log.close()
        super().close()


class _Lines(io.TextIOBase):
    """Replace standard output or error: pass text to `write_line`, line by line, and everything else to `stream`."""

    def __init__(self, stream: TextIO, write_line: Callable[[str], None]) -> None:
        super().__init__()
        self._stream = stream
        self._write_line = write_line
        self._lock = threading.RLock()
        self._unfinished = ""

    def write(self, text: str) -> int:
        """Write the complete lines, and keep the rest."""
        with self._lock:
            *lines, self._unfinished = (self._unfinished + text).split("\n")
            if len(self._unfinished) > _LINE_MAX:
                lines, self._unfinished = [*lines, self._unfinished], ""
        for line in lines:
            self._write_line(line)
        return len(text)

    def end_line(self) -> None:
        """Write the unfinished line."""
        with self._lock:
            line, self._unfinished = self._unfinished, ""
        if line:
            self._write_line(line)

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the original stream, for libraries that write to it directly."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Return False."""
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the encoding of the original stream."""
        return self._stream.encoding

    def __getattr__(self, name: str) -> Any:
        # `buffer` and other attributes of a file.
        return getattr(self._stream, name)


def _current_operator() -> tuple[int, str] | None:
    """Return the subtask and the name of the operator whose function this thread runs, as (0, "map (1/2)"), or None."""
    frame = inspect.currentframe()
    while frame is not None:
        arguments = inspect.getargvalues(frame)
        operator = arguments.locals.get("self") if arguments.args[:1] == ["self"] else None
        # An operator without a context is not set up yet.
        if isinstance(operator, Operator) and hasattr(operator, "context"):
            info = operator.context.info
            return info.subtask, f"{operator.name} ({info.subtask + 1}/{info.parallelism})"
        frame = frame.f_back
    return None
