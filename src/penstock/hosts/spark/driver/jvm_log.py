"""The log of a JVM that penstock starts: a file in the folder of the job for which it is started.

Other jobs of the program that use the same JVM have a link to it. Its settings travel by the environment, as a path in
Java's options would have to be quoted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.hosts.logs.folders import HeldFolder
from penstock.hosts.logs.settings import JVM_LOG, LogSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WHERE = "spark.penstock.jvm-log"
"""A setting of the session, which says where the log is."""
_held: list[HeldFolder] = []
"""The folder into which the JVM of this process writes."""


def _options(name: str) -> str:
    return f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name(name)}"


OPTIONS_OF_LOG_FILE = _options("log4j2-file.properties")
"""Options of a JVM whose environment says where its log is."""


class JvmLog:
    """What a session needs at its start. Without settings a JVM writes no log.

    `jvm_runs`: the session is one more in a JVM, which goes on with its log. `kept`: the log of a JVM that other
    programs use, too.
    """

    def __init__(self, settings: LogSettings | None, jvm_runs: bool = False, kept: str | None = None) -> None:
        self.java_options = _options("log4j2.properties") if settings is None else OPTIONS_OF_LOG_FILE
        self.environment: dict[str, str] = {}
        self.settings: dict[str, str] = {}
        if not jvm_runs:
            # Of a JVM before, which has ended.
            while _held:
                _held.pop().release()
            if settings is not None and kept is None:
                # The JVM outlives the job for which it was started, and its log with it.
                _held.append(HeldFolder(settings))
                self.environment = {
                    "PENSTOCK_JVM_LOG": str(_held[0].path / JVM_LOG),
                    "PENSTOCK_JVM_LOG_BYTES": str(settings.max_bytes),
                    "PENSTOCK_JVM_LOG_MAX": str(settings.backups),
                }
        if kept is not None:
            self.settings[_WHERE] = kept
        elif _held:
            self.settings[_WHERE] = str(_held[0].path / JVM_LOG)


def jvm_log_of(session: SparkSession) -> str | None:
    """The log of a session's JVM; None: penstock has not started it."""
    path = session.sparkContext.getConf().get(_WHERE)
    return None if path is None else str(path)
