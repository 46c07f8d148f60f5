"""Spark's daemon for Python workers, which imports the modules that all workers need before it forks the first one.

Each task has a worker process. Without this daemon, each worker would import pyarrow, pandas and penstock: almost a
second of CPU for each, all of them at the same time on the same cores, while the first record waits.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

from penstock.hosts.spark.internals.daemon import serve, without_zips
from penstock.hosts.spark.internals.version import quiet_pandas
from penstock.hosts.spark.job_files import PRELOADED, WORKING_DIRECTORY
from penstock.hosts.spark.worker.crash_reports import CrashReports

IMPORTED_BEFORE_FORK = (
    "pandas",
    "pyarrow.ipc",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyspark.worker",
    "zmq",
    "penstock.hosts.spark.worker.pipelined_stage",
    "penstock.hosts.spark.worker.batched_stage",
    "penstock.hosts.spark.frames.function_calls",
    "penstock.engine.runtime.columns.operators",
    "penstock.engine.runtime.operators.group_calls",
    "penstock.connectors.base.collection",
    "penstock.connectors.base.data_generator",
    "penstock.connectors.base.number_sequence",
    "penstock.datastream",
    "penstock.datastream.window",
)


def main() -> None:
    """Import the modules, then serve as Spark's daemon until the executor ends."""
    _change_directory()
    sys.path[:] = without_zips(sys.path)
    quiet_pandas()
    for name in IMPORTED_BEFORE_FORK:
        importlib.import_module(name)
    for name in filter(None, os.environ.get(PRELOADED, "").split(",")):
        # A worker that needs the module reports what is wrong with it.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # All present objects live as long as the process. The collector in a worker does not traverse frozen objects; it
    # would write to their headers, and so copy memory that workers share.
    gc.collect()
    gc.freeze()
    serve(CrashReports().worker_ended)


def _change_directory() -> None:
    """Change to the program's working directory: a leased JVM has another one."""
    directory = os.environ.pop(WORKING_DIRECTORY, None)
    if directory is not None:
        with contextlib.suppress(OSError):
            os.chdir(directory)
            sys.path[0] = directory


if __name__ == "__main__":
    main()
