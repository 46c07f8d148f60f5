"""Failures on their way from a worker to the user: as the name of an error class and its text.

In pipelined mode they travel by the control connection, in batched mode inside the text of a Spark exception.
"""

from __future__ import annotations

import base64
import re

import msgspec

from penstock.common.errors import NotEnoughSlotsError, PenstockError, SparkLostError, TaskLostError
from penstock.common.values.decoding import from_json
from penstock.engine.rpc.failures import Failure, describe, revive
from penstock.hosts.spark.internals.error_texts import (
    FULL_DISK,
    LOST_WORKER,
    NO_DIRECTORY,
    NO_PENSTOCK,
    NO_PYTHON,
    OF_PY4J,
    TOO_FEW_SLOTS,
)
from penstock.hosts.spark.internals.jvm import is_lost_connection, java_stack_of, jvm_ends, jvm_has_ended
from penstock.hosts.spark.internals.python_daemons import has_no_daemon

# What a worker refuses before its slot can report failures: the last line of the traceback in Spark's text.
_REFUSAL = re.compile(rf"{re.escape(PenstockError.__module__)}\.(ConfigurationError|ProgramError): (.*)")
_TRACEBACK = "Traceback (most recent call last):"
_MARK = re.compile(r"penstock-failure<([A-Za-z0-9+/=]+)>")


class StageError(Exception):
    """Raised in a worker in batched mode: its text is an encoded failure, which Spark carries to the driver."""


def to_stage_failure(error: BaseException) -> StageError:
    """An exception whose text `from_spark` can decode."""
    data = base64.b64encode(msgspec.json.encode(describe(error))).decode()
    return StageError(f"penstock-failure<{data}>")


def from_spark(error: BaseException, show_stack: bool) -> PenstockError:
    """The error to show for an exception of Spark; with `show_stack` Spark's own stack follows the text."""
    if isinstance(error, PenstockError):
        return error
    if is_lost_connection(error) or jvm_has_ended():
        return lost_spark()
    text = str(error)
    raised: frozenset[str] = frozenset()
    mark = _MARK.search(text)
    if mark is not None:
        kind, message, raised = from_json(base64.b64decode(mark.group(1)), Failure)
    else:
        kind, message = _told_by(text)
    if show_stack:
        message = f"{message}\n\nSpark's own stack:\n{java_stack_of(error)}"
    elif mark is None:
        message = f"{message}\n  Spark's own stack: penstock.errors.show-spark-stack: true"
    return revive(kind, message, raised)


def lost_spark() -> SparkLostError:
    """The error of a job to whose calls Spark's JVM does not answer. Waits a moment for the JVM's end."""
    if jvm_ends():
        return SparkLostError("Spark's JVM has ended: killed, or out of memory")
    return SparkLostError("the connection to Spark's JVM was lost")


def _told_by(text: str) -> tuple[str, str]:
    """Return the name of the error class and the message for a text of Spark's own."""
    if NO_PENSTOCK in text:
        return "ConfigurationError", (
            "the executors have no penstock: install the same version there as on the driver, in the Python that "
            "spark.pyspark.python names"
        )
    if NO_PYTHON in text:
        python = text.partition(NO_PYTHON)[2].partition('"')[0]
        return "ConfigurationError", (
            f"an executor has no {python}: install penstock there, and let spark.pyspark.python name the Python that "
            "has it"
        )
    if refusals := _REFUSAL.findall(text):
        # The last one: the errors that it came from stand before it.
        name, message = refusals[-1]
        return name, message
    if TOO_FEW_SLOTS in text:
        return NotEnoughSlotsError.__name__, "Spark has fewer free slots than the job needs"
    if has_no_daemon(text):
        return TaskLostError.__name__, "the process from which Spark forks its Python workers went away"
    lines = [line.strip().removeprefix(": ")[:300] for line in text.splitlines()]
    # Before a lost worker, whose connection breaks for the same reason.
    if full := next((line for line in lines if any(sign in line for sign in FULL_DISK)), None):
        return "JobError", (
            f"a disk that Spark writes to is full: {full}\n  Free some space there, or name another directory: "
            "spark.local.dir, and TMPDIR in the environment"
        )
    if refused := next((line for line in lines if all(sign in line for sign in NO_DIRECTORY)), None):
        return "JobError", (
            f"Spark can't make a directory: {refused}\n  Free some space there if its disk is full, or let this user "
            "write there; or name another directory: spark.local.dir, and TMPDIR in the environment"
        )
    # Which of its many ways to say so: the only trace where a connection broke and no process has ended.
    if lost := next((line for line in lines if any(sign in line for sign in LOST_WORKER)), None):
        return TaskLostError.__name__, (
            f"a Python worker or executor of the job went away (killed, or out of memory); Spark: {lost}"
        )
    return "JobError", f"Spark ended the job: {cause_in(text)}"


def cause_in(text: str) -> str:
    """The first line of Spark's text; of a traceback in it the last one, which names the error."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    if lines[0].startswith(OF_PY4J) and len(lines) > 1 and lines[1].startswith(": "):
        return lines[1].removeprefix(": ").strip()
    if not lines[0].rstrip().endswith(_TRACEBACK):
        return lines[0].strip()
    error = next((line for line in lines[1:] if not line.startswith(" ")), "")
    return f"{lines[0].strip().removesuffix(_TRACEBACK)}{error}" if error else lines[0].strip()
