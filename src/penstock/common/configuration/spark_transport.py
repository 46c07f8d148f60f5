"""How rows go between a task and Spark."""

from __future__ import annotations

import enum


class SparkTransport(enum.Enum):
    """How the host of a slot reads and writes the rows that Spark moves: the option `penstock.spark.transport`."""

    PIPES = "pipes"
    """The slot's thread reads and writes the pipes of its worker itself: the fast way, by parts of PySpark that are not
    public. Where they are not as expected, ITERATORS is used, with a warning."""
    ITERATORS = "iterators"
    """PySpark reads and writes, the slot takes batches from its iterator: slower, by PySpark's public interface."""
