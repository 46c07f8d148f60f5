"""The settings of a job's logs: folder, level and size. The driver and all workers of the job use them."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from penstock.common.configuration import Configuration, options
from penstock.common.errors import ConfigurationError
from penstock.common.time.wall_clock import now_ms

DIRECTORY = "logs"
"""Name of the default directory, below the user's cache directory."""
JVM_LOG = "jvm.log"
"""Name of the file to which Spark's JVM writes."""
PLACE = "place"
"""Name of a file that contains `LogSettings.place`. A worker that finds it there shares its folder with the driver."""
_MARK_LENGTH = 8


class LoggedJob(msgspec.Struct, frozen=True):
    """The job whose logs a folder contains."""

    job_id: str
    name: str
    started_ms: int

    @property
    def mark(self) -> str:
        """Return the first characters of the job's id, which each line shows."""
        return self.job_id[:_MARK_LENGTH]


class LogSettings(msgspec.Struct, frozen=True):
    """Part of a stage's payload. `folder` is absolute; workers on other machines create a folder at the same path."""

    job: LoggedJob
    folder: str
    level: int
    max_bytes: int
    backups: int
    retained_jobs: int
    place: str = ""
    """A random text, another one for each run. Empty: the worker shares its folder with the driver."""


def worker_log(level: int, index: int) -> str:
    """Return the name of a slot's log, without its suffix."""
    return f"level-{level}-slot-{index}"


def log_settings(configuration: Configuration, job_id: str, name: str, default_directory: Path) -> LogSettings:
    """Return the settings of a job that starts now. Raises ConfigurationError for an invalid value."""
    directory = configuration.get(options.LOG_DIRECTORY)
    if directory is not None and "://" in directory:
        raise ConfigurationError(f"{options.LOG_DIRECTORY.key} must be a local directory, got {directory}")
    return LogSettings(
        job=LoggedJob(job_id, name, now_ms()),
        folder=str(Path(directory).absolute() / job_id if directory else default_directory / job_id),
        level=configuration.get(options.LOG_LEVEL).value,
        # With a maximum size or a number of backups of 0, `logging` never rotates the file.
        max_bytes=max(1, configuration.get(options.LOG_MAX_SIZE)),
        backups=max(1, configuration.get(options.LOG_MAX)),
        retained_jobs=max(0, configuration.get(options.LOG_RETAINED_JOBS)),
        place=secrets.token_hex(),
    )
