"""Spark's daemon for Python workers, with what every worker needs imported before the first fork.

Each task has a worker process of its own. Without this each of them imports pyarrow, pandas and penstock anew: most of
a second of CPU for each, all at once on the same cores, while the first record waits.
"""

from __future__ import annotations

import gc
import importlib

from penstock.spark.internals.daemon import serve

_NEEDED = (
    "pandas",
    "pyarrow.ipc",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "zmq",
    "penstock.spark.worker.pipelined_stage",
    "penstock.spark.worker.batched_stage",
    "penstock.connectors.base.collection",
    "penstock.connectors.base.data_generator",
    "penstock.connectors.base.number_sequence",
    "penstock.datastream",
    "penstock.datastream.window",
)


def main() -> None:
    """Import, then be Spark's daemon."""
    for name in _NEEDED:
        importlib.import_module(name)
    # What is there now lives as long as the process: workers need not look through it, nor copy its pages.
    gc.collect()
    gc.freeze()
    serve()


if __name__ == "__main__":
    main()
