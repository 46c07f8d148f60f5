"""The log of a job in its driver, and the folder around it."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from penstock.common.configuration import Configuration
from penstock.common.errors import JobCancelledError
from penstock.hosts.logs.file import LogFile
from penstock.hosts.logs.folders import HeldFolder
from penstock.hosts.logs.settings import JVM_LOG, PLACE, LogSettings, log_settings, worker_log

_DRIVER = "driver"
_penstock = logging.getLogger("penstock")


class JobLog:
    """The log of one job, from its submission to its end. If its folder can't be created, warn and keep no logs.

    `default_directory` has the folders of all jobs: with `env.log.dir`, a link to the folder, by which it is found.
    """

    def __init__(self, configuration: Configuration, job_id: str, name: str, default_directory: Path) -> None:
        self.settings: LogSettings | None = None
        """Settings for workers; None: no logs are kept."""
        self.events = logging.Logger("penstock.job")
        """A logger for events of this job. It is not registered with `logging`, whose loggers live forever."""
        self._folder: HeldFolder | None = None
        self._file: _DriverFile | None = None
        settings = log_settings(configuration, job_id, name, default_directory)
        try:
            self._folder = HeldFolder(settings, begins=True)
            (Path(settings.folder) / PLACE).write_text(settings.place)
            self._file = _DriverFile(settings, _DRIVER)
            _link(default_directory / job_id, Path(settings.folder))
        except OSError as error:
            _penstock.warning("cannot create the logs of the job '%s': %s", name, error)
            self.close()
            return
        self.settings = settings
        self.events.setLevel(settings.level)
        # Only this logger, and not what else goes to the file: the user's own handlers must not see its messages.
        self.events.addHandler(self._file.quiet)
        _penstock.addHandler(self._file)

    def link_jvm(self, jvm_log: str | None) -> None:
        """The log of the JVM that runs the job; None: the user's session, which has a log of its own."""
        if self.settings is not None and jvm_log is not None:
            _link(Path(self.settings.folder) / JVM_LOG, Path(jvm_log))

    def of_worker(self, level: int, index: int, lines: str) -> None:
        """Write the log lines of a slot on another machine. Raises nothing: lines that can't be written are lost."""
        if self.settings is None:
            return
        with contextlib.suppress(OSError):
            # Not kept open: the slot of the next attempt may run on this machine, and write to the file itself.
            file = LogFile(self.settings, worker_log(level, index))
            file.append(lines)
            file.close()

    def with_log_location(self, error: BaseException | None) -> BaseException | None:
        """Add a note to the error that says where the logs are."""
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
    """A handler of all penstock loggers. It must not keep warnings off the terminal."""

    def __init__(self, settings: LogSettings, name: str) -> None:
        super().__init__()
        self.quiet = LogFile(settings, name)

    def emit(self, record: logging.LogRecord) -> None:
        self.quiet.handle(record)
        # As `logging` does without any handler; here it finds this one. Only one of several jobs' handlers prints.
        is_first = next(handler for handler in _penstock.handlers if isinstance(handler, _DriverFile)) is self
        last = logging.lastResort
        if is_first and last is not None and record.levelno >= last.level and not logging.getLogger().handlers:
            last.handle(record)

    def close(self) -> None:
        self.quiet.close()
        super().close()
