"""Spark's daemon for Python workers, which imports the modules that all workers need before it forks the first.

Each task has a worker process of its own. Without this daemon each of them would import pyarrow, pandas and penstock:
most of a second of CPU for each, all at once on the same cores, while the first record waits.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys

from penstock.hosts.spark.internals.daemon import serve, without_zips
from penstock.hosts.spark.job_files import WORKING_DIRECTORY
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
    "penstock.connectors.base.collection",
    "penstock.connectors.base.data_generator",
    "penstock.connectors.base.number_sequence",
    "penstock.datastream",
    "penstock.datastream.window",
)


def main() -> None:
    """Import the modules, then serve as Spark's daemon until the executor ends."""
    _go_to_the_programs_directory()
    sys.path[:] = without_zips(sys.path)
    for name in IMPORTED_BEFORE_FORK:
        importlib.import_module(name)
    # All objects that exist now live as long as the process. Frozen, they are not traversed by the collector in a
    # worker, which would write to their headers and so copy memory that workers share.
    gc.collect()
    gc.freeze()
    serve(CrashReports().of)


def _go_to_the_programs_directory() -> None:
    """A JVM that several programs use in turn has a working directory of its own."""
    directory = os.environ.pop(WORKING_DIRECTORY, None)
    if directory is not None:
        with contextlib.suppress(OSError):
            os.chdir(directory)
            sys.path[0] = directory


if __name__ == "__main__":
    main()
