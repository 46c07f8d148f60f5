"""Texts by which penstock recognizes exceptions for which Spark has no class."""

from __future__ import annotations

TOO_FEW_SLOTS = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
"""The error condition of a query that needs more slots at once than are free."""

LOST_WORKER = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "EOFException",
    # Errors of the JVM if a worker dies while the JVM reads from it or writes to it, and of an executor if another one
    # dies.
    "Connection reset by peer",
    "Broken pipe",
    "ClosedChannelException",
    "Connection to streaming shuffle writer",
)
"""Parts of the texts of exceptions after a worker or an executor has died."""

FULL_DISK = ("No space left on device", "Disk quota exceeded")
"""The operating system's texts, in exceptions of Java."""

NO_DIRECTORY = ("mkdir of ", " failed")
"""Parts of Hadoop's text if it cannot create a directory: the path is between them, and a reason is missing."""

PY4J_PREFIX = "An error occurred while calling "
"""The first line of each exception of Py4J; the next line has the exception of Java, after a colon."""

NO_PYTHON = 'Cannot run program "'
"""Java's text if an executor has no Python of the configured name."""

NO_PENSTOCK = "No module named 'penstock'"
"""Python's text if penstock is not installed for a worker."""
