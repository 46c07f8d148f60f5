"""PySpark's daemon: the process from which the workers of an executor are forked."""

from __future__ import annotations


def serve() -> None:
    """Fork workers as the JVM asks for them, until it closes this process's standard input; then exit.

    Modules that are imported before this call are there in each worker.
    """
    from pyspark.daemon import manager

    manager()
