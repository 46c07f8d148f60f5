"""Failures on their way from a worker to the user: as kind and text, also through Spark's exceptions."""

from __future__ import annotations

import base64
import re

import msgspec

from penstock.common.errors import NotEnoughSlotsError, PenstockError, TaskLostError
from penstock.rpc.failures import describe, revive

_MARK = re.compile(r"penstock-failure<([A-Za-z0-9+/=]+)>")

_TOO_FEW_SLOTS = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
_SIGNS_OF_DEATH = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "EOFException",
    # What the JVM meets if the worker dies while it reads from it, and what an executor meets if another one dies.
    "Connection reset by peer",
    "ClosedChannelException",
    "Connection to streaming shuffle writer",
)


class StageError(Exception):
    """Raised in a worker in batched mode: its text carries the failure through Spark."""


def to_stage_failure(error: BaseException) -> StageError:
    """An exception whose text `from_spark` understands."""
    data = base64.b64encode(msgspec.json.encode(describe(error))).decode()
    return StageError(f"penstock-failure<{data}>")


def from_spark(error: BaseException, show_stack: bool) -> PenstockError:
    """What an exception of Spark means for the user. With `show_stack` Spark's own text follows."""
    text = str(error)
    mark = _MARK.search(text)
    if mark is not None:
        kind, message = msgspec.json.decode(base64.b64decode(mark.group(1)), type=tuple[str, str])
    elif "No module named 'penstock'" in text:
        kind, message = (
            "ConfigurationError",
            (
                "the executors have no penstock: install the same version there as on the driver, in the Python that "
                "spark.pyspark.python names"
            ),
        )
    elif "this executor has penstock" in text:
        kind, message = "ConfigurationError", _line_with(text, "this executor has penstock")
    elif _TOO_FEW_SLOTS in text:
        kind, message = NotEnoughSlotsError.__name__, "Spark has fewer free slots than the job needs"
    elif any(sign in text for sign in _SIGNS_OF_DEATH):
        kind, message = (
            TaskLostError.__name__,
            "a Python worker or executor of the job went away (killed, or out of memory)",
        )
    else:
        kind, message = "JobError", f"Spark ended the job: {_first_line(text)}"
    if show_stack:
        # The text of a Spark exception is the worker's; the JVM's part is kept apart from it.
        message = f"{message}\n\nSpark's own stack:\n{getattr(error, '_stackTrace', None) or text}"
    elif mark is None:
        message = f"{message}\n  Spark's own stack: penstock.errors.show-spark-stack: true"
    return revive(kind, message)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def _line_with(text: str, part: str) -> str:
    line = next(line for line in text.splitlines() if part in line)
    return line[line.index(part) :]
