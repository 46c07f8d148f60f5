"""Texts by which Spark's exceptions are recognised: Spark has no classes for what they report."""

from __future__ import annotations

TOO_FEW_SLOTS = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
"""The error condition of a query that needs more slots at once than are free."""

LOST_WORKER = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "EOFException",
    # What the JVM meets if the worker dies while it reads from it, or writes to it, and what an executor meets if
    # another one dies.
    "Connection reset by peer",
    "Broken pipe",
    "ClosedChannelException",
    "Connection to streaming shuffle writer",
)
"""Parts of the texts of exceptions after a worker or an executor has died."""

FULL_DISK = ("No space left on device", "Disk quota exceeded")
"""The system's own texts, out of Java."""

NO_DIRECTORY = ("mkdir of ", " failed")
"""What Hadoop says of a directory that it can't make, with its path in between, and no reason."""

OF_PY4J = "An error occurred while calling "
"""How Py4J begins, whatever Java has raised; what that is comes in the next line, behind a colon."""

NO_PYTHON = 'Cannot run program "'
"""Java's own text, out of an executor that has no Python of the name it was given."""

NO_PENSTOCK = "No module named 'penstock'"
"""Python's own text, out of a worker whose Python has no penstock."""
