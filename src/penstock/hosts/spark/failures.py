"""Failures on the way from a worker to the user, as the name of an error class and its text.

In pipelined mode they travel by the control connection, in batched mode inside the text of a Spark exception.
"""

from __future__ import annotations

import base64
import re

import msgspec

from penstock.common.errors import NotEnoughSlotsError, PenstockError, SessionLostError, SparkLostError, TaskLostError
from penstock.common.values.decoding import from_json
from penstock.engine.rpc.failures import Failure, describe, revive
from penstock.hosts.spark.internals.error_texts import (
    FULL_DISK,
    LOST_WORKER,
    NO_DIRECTORY,
    NO_PENSTOCK,
    NO_PYTHON,
    PY4J_PREFIX,
    TOO_FEW_SLOTS,
)
from penstock.hosts.spark.internals.jvm import is_lost_connection, java_stack_of, jvm_has_ended, wait_for_jvm_end
from penstock.hosts.spark.internals.python_daemons import has_no_daemon

# Errors that a worker raises before its slot can report failures: the last line of the traceback in Spark's text.
_REFUSAL = re.compile(rf"{re.escape(PenstockError.__module__)}\.(ConfigurationError|ProgramError): (.*)")
# Errors of a job that may mean that Spark's JVM has ended: with it, its workers and executors end as well.
_LOST_PROCESS = {kind.__name__ for kind in (TaskLostError, SparkLostError, SessionLostError)}
_TRACEBACK = "Traceback (most recent call last):"
_MARK = re.compile(r"penstock-failure<([A-Za-z0-9+/=]+)>")


class StageError(Exception):
    """Carry a failure of a worker in batched mode: Spark sends the text, an encoded failure, to the driver."""


def to_stage_failure(error: BaseException) -> StageError:
    """Return an exception whose text `from_spark` can decode."""
    data = base64.b64encode(msgspec.json.encode(describe(error))).decode()
    return StageError(f"penstock-failure<{data}>")


def from_spark(error: BaseException, show_stack: bool) -> PenstockError:
    """Return the error to show for an exception of Spark; with `show_stack`, its text ends with Spark's stack."""
    if isinstance(error, PenstockError):
        return error
    if is_lost_connection(error) or jvm_has_ended():
        return lost_spark()
    text = str(error)
    failure = _marked(text)
    kind, message, raised = failure or (*_translated(text), frozenset())
    if show_stack:
        message = f"{message}\n\nSpark's own stack:\n{java_stack_of(error)}"
    elif failure is None:
        message = f"{message}\n  Spark's own stack: penstock.errors.show-spark-stack: true"
    return revive(kind, message, raised)


def of_worker(error: BaseException) -> PenstockError | None:
    """Return the failure of a worker that an exception of Spark carries; None if it carries none."""
    failure = _marked(str(error))
    return None if failure is None else revive(*failure)


def _marked(text: str) -> Failure | None:
    mark = _MARK.search(text)
    return None if mark is None else from_json(base64.b64decode(mark.group(1)), Failure)


def lost_spark() -> SparkLostError:
    """Return the error of a job whose calls Spark's JVM does not answer. Waits a moment for the JVM's end."""
    if wait_for_jvm_end():
        return SparkLostError("Spark's JVM has ended: killed, or out of memory")
    return SparkLostError("the connection to Spark's JVM was lost")


def failed_with_jvm(kind: str) -> bool:
    """Return whether a job failed because Spark's JVM has ended. Waits a moment for the JVM's end if that is possible.

    `kind`: the class name of the job's error.
    """
    return kind in _LOST_PROCESS and wait_for_jvm_end()


def _translated(text: str) -> tuple[str, str]:
    """Return the name of the error class, and the message, for a text that Spark wrote."""
    if NO_PENSTOCK in text:
        return "ConfigurationError", (
            "penstock is not installed on the executors: install the driver's version there, in the Python that "
            "spark.pyspark.python names"
        )
    if NO_PYTHON in text:
        python = text.partition(NO_PYTHON)[2].partition('"')[0]
        return "ConfigurationError", (
            f"an executor has no {python}: install penstock there, and set spark.pyspark.python to the Python that "
            "has it"
        )
    if refusals := _REFUSAL.findall(text):
        # The last one: the errors that caused it come before it.
        name, message = refusals[-1]
        return name, message
    if TOO_FEW_SLOTS in text:
        return NotEnoughSlotsError.__name__, "Spark has fewer free slots than the job needs"
    if has_no_daemon(text):
        return TaskLostError.__name__, "the process from which Spark forks its Python workers has ended"
    lines = [line.strip().removeprefix(": ")[:300] for line in text.splitlines()]
    # Check this before the texts of a lost worker: a full disk breaks the worker's connection as well.
    if full := next((line for line in lines if any(sign in line for sign in FULL_DISK)), None):
        return "JobError", (
            f"a disk that Spark writes to is full: {full}\n  Free some space there, or name another directory: "
            "spark.local.dir, and TMPDIR in the environment"
        )
    if refused := next((line for line in lines if all(sign in line for sign in NO_DIRECTORY)), None):
        return "JobError", (
            f"Spark cannot create a directory: {refused}\n  Free some space there if its disk is full, or give this "
            "user write permission, or name another directory: spark.local.dir, and TMPDIR in the environment"
        )
    # Quote Spark's line: if a connection broke and all processes still run, it is the only trace.
    if lost := next((line for line in lines if any(sign in line for sign in LOST_WORKER)), None):
        return TaskLostError.__name__, (
            f"a Python worker or executor of the job was lost (killed, or out of memory); Spark: {lost}"
        )
    return "JobError", f"Spark ended the job: {cause_in(text)}"


def cause_in(text: str) -> str:
    """Return the first line of Spark's text, or the last line of a traceback in it, which names the error."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    if lines[0].startswith(PY4J_PREFIX) and len(lines) > 1 and lines[1].startswith(": "):
        return lines[1].removeprefix(": ").strip()
    if not lines[0].rstrip().endswith(_TRACEBACK):
        return lines[0].strip()
    error = next((line for line in lines[1:] if not line.startswith(" ")), "")
    return f"{lines[0].strip().removesuffix(_TRACEBACK)}{error}" if error else lines[0].strip()
