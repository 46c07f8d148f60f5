"""The log of a JVM that penstock starts: a file in the folder of the job for which it is started.

Other jobs of the program that use the same JVM have a link to the file. The JVM gets the log's settings by environment
variables, because a path in Java's options would need quoting.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.hosts.logs.folders import LockedFolder
from penstock.hosts.logs.settings import JVM_LOG, LogSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATH_SETTING = "spark.penstock.jvm-log"
"""A setting of the session with the path of the log."""
_folders: list[LockedFolder] = []
"""The folder to which the JVM of this process writes, if any."""


def _options(name: str) -> str:
    return f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name(name)}"


OPTIONS_OF_LOG_FILE = _options("log4j2-file.properties")
"""Options of a JVM that gets the path of its log from its environment."""


class JvmLog:
    """Provide options, environment and settings of a new session, with which its JVM writes a log.

    `settings`: None for a JVM without a log. `jvm_runs`: the session uses a JVM that runs, and keeps its log.
    `leased_log`: the path of the log of a leased JVM.
    """

    def __init__(self, settings: LogSettings | None, jvm_runs: bool = False, leased_log: str | None = None) -> None:
        self.java_options = _options("log4j2.properties") if settings is None else OPTIONS_OF_LOG_FILE
        self.environment: dict[str, str] = {}
        self.settings: dict[str, str] = {}
        if not jvm_runs:
            # Release the folder of the previous JVM, which has ended.
            while _folders:
                _folders.pop().release()
            if settings is not None and leased_log is None:
                # Lock the folder again, independently of the job: the JVM may write there after the job has ended.
                _folders.append(LockedFolder(settings))
                self.environment = {
                    "PENSTOCK_JVM_LOG": str(_folders[0].path / JVM_LOG),
                    "PENSTOCK_JVM_LOG_BYTES": str(settings.max_bytes),
                    "PENSTOCK_JVM_LOG_MAX": str(settings.backups),
                }
        if leased_log is not None:
            self.settings[_PATH_SETTING] = leased_log
        elif _folders:
            self.settings[_PATH_SETTING] = str(_folders[0].path / JVM_LOG)


def jvm_log_of(session: SparkSession) -> str | None:
    """Return the path of the log of a session's JVM, or None if penstock has not started the JVM."""
    path = session.sparkContext.getConf().get(_PATH_SETTING)
    return None if path is None else str(path)
