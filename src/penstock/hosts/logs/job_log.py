"""The log of a job in its driver, and the folder around it."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from penstock.common.configuration import Configuration
from penstock.common.errors import JobCancelledError
from penstock.hosts.logs.file import LogFile
from penstock.hosts.logs.folders import LockedFolder
from penstock.hosts.logs.settings import JVM_LOG, PLACE, LogSettings, log_settings, worker_log

_DRIVER = "driver"
_penstock = logging.getLogger("penstock")


class JobLog:
    """Keep the log of one job, from its submission to its end. If its folder cannot be created, warn and keep no logs.

    `default_directory` contains the folder of each job, or with `env.log.dir` a link to it, by which `find` finds it.
    """

    def __init__(self, configuration: Configuration, job_id: str, name: str, default_directory: Path) -> None:
        self.settings: LogSettings | None = None
        """Settings for workers; None: there are no logs."""
        self.events = logging.Logger("penstock.job")
        """A logger for events of this job. It is not registered with `logging`, whose loggers live forever."""
        self._folder: LockedFolder | None = None
        self._file: _DriverFile | None = None
        settings = log_settings(configuration, job_id, name, default_directory)
        try:
            self._folder = LockedFolder(settings, starts_run=True)
            (Path(settings.folder) / PLACE).write_text(settings.place)
            self._file = _DriverFile(settings, _DRIVER)
            _link(default_directory / job_id, Path(settings.folder))
        except OSError as error:
            _penstock.warning("cannot create the logs of the job '%s': %s", name, error)
            self.close()
            return
        self.settings = settings
        self.events.setLevel(settings.level)
        # Not a child of the logger "penstock": the user's handlers there must not receive these messages.
        self.events.addHandler(self._file.file)
        _penstock.addHandler(self._file)

    def link_jvm(self, jvm_log: str | None) -> None:
        """Link the log of the JVM that runs the job. None: a session of the user's, which has a log elsewhere."""
        if self.settings is not None and jvm_log is not None:
            _link(Path(self.settings.folder) / JVM_LOG, Path(jvm_log))

    def append_worker_lines(self, level: int, index: int, lines: str) -> None:
        """Write the log lines of a slot on another machine. Raises nothing: lines that cannot be written are lost."""
        if self.settings is None:
            return
        with contextlib.suppress(OSError):
            # Do not keep the file open: the slot of the next attempt may run on this machine, and write to the file.
            file = LogFile(self.settings, worker_log(level, index))
            file.append(lines)
            file.close()

    def with_log_location(self, error: BaseException | None) -> BaseException | None:
        """Add a note to the error that names the folder of the logs, and return the error."""
        if self.settings is not None and error is not None and not isinstance(error, JobCancelledError):
            note = f"Logs of the job: {self.settings.folder}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
        return error

    def close(self) -> None:
        """Close the log: the job has ended."""
        if self._file is not None:
            _penstock.removeHandler(self._file)
            self._file.close()
        if self._folder is not None:
            self._folder.release()


def _link(link: Path, target: Path) -> None:
    if link == target:
        return
    with contextlib.suppress(OSError):
        link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        link.unlink(missing_ok=True)
        link.symlink_to(target)


class _DriverFile(logging.Handler):
    """Write records of penstock's loggers to a file, and warnings to the terminal as well."""

    def __init__(self, settings: LogSettings, name: str) -> None:
        super().__init__()
        self.file = LogFile(settings, name)

    def emit(self, record: logging.LogRecord) -> None:
        self.file.handle(record)
        # `logging` prints warnings only if it finds no handler, and it finds this one. With several jobs, let only the
        # first handler print.
        is_first = next(handler for handler in _penstock.handlers if isinstance(handler, _DriverFile)) is self
        last = logging.lastResort
        if is_first and last is not None and record.levelno >= last.level and not logging.getLogger().handlers:
            last.handle(record)

    def close(self) -> None:
        self.file.close()
        super().close()
