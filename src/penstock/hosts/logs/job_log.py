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
    """Of one job, from its submission to its end. If its folder can't be made there is a warning, and no logs.

    `default_directory` has the folders of all jobs: with `env.log.dir`, a link to the folder, by which it is found.
    """

    def __init__(self, configuration: Configuration, job_id: str, name: str, default_directory: Path) -> None:
        self.settings: LogSettings | None = None
        """None: no logs are kept."""
        self.events = logging.Logger("penstock.job")
        """For what happens to this job. It is not one of those that `logging` knows, as these live for ever."""
        self._folder: HeldFolder | None = None
        self._file: _DriverFile | None = None
        settings = log_settings(configuration, job_id, name, default_directory)
        try:
            self._folder = HeldFolder(settings, begins=True)
            (Path(settings.folder) / PLACE).write_text(settings.place)
            self._file = _DriverFile(settings, _DRIVER)
            _link(default_directory / job_id, Path(settings.folder))
        except OSError as error:
            _penstock.warning("the job '%s' has no logs: %s", name, error)
            self.close()
            return
        self.settings = settings
        self.events.setLevel(settings.level)
        # Not what else goes to the file: a message of this logger is no concern of the user's own handlers.
        self.events.addHandler(self._file.quiet)
        _penstock.addHandler(self._file)

    def link_jvm(self, jvm_log: str | None) -> None:
        """The log of the JVM that runs the job; None: it is a session of the user's, with a log of its own."""
        if self.settings is not None and jvm_log is not None:
            _link(Path(self.settings.folder) / JVM_LOG, Path(jvm_log))

    def of_worker(self, level: int, index: int, lines: str) -> None:
        """Keep what a slot on another machine has written. Raises nothing: what can't be written is lost."""
        if self.settings is None:
            return
        with contextlib.suppress(OSError):
            # Not kept open: the next attempt's slot may be on this machine, and write to the file itself.
            file = LogFile(self.settings, worker_log(level, index))
            file.append(lines)
            file.close()

    def with_log_location(self, error: BaseException | None) -> BaseException | None:
        """The error, with a note of where the logs are."""
        if self.settings is not None and error is not None and not isinstance(error, JobCancelledError):
            note = f"Logs of the job: {self.settings.folder}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
        return error

    def close(self) -> None:
        """The job has ended."""
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
    """Takes what penstock's loggers let through. A handler there must not keep warnings off the terminal."""

    def __init__(self, settings: LogSettings, name: str) -> None:
        super().__init__()
        self.quiet = LogFile(settings, name)

    def emit(self, record: logging.LogRecord) -> None:
        self.quiet.handle(record)
        # As `logging` itself does if it finds no handler: it finds this one. Of several jobs' files only one does it.
        is_first = next(handler for handler in _penstock.handlers if isinstance(handler, _DriverFile)) is self
        last = logging.lastResort
        if is_first and last is not None and record.levelno >= last.level and not logging.getLogger().handlers:
            last.handle(record)

    def close(self) -> None:
        self.quiet.close()
        super().close()
