"""The exceptions of penstock, as one tree.

PenstockError
├── ProgramError            the program is invalid: detected before anything runs
├── ConfigurationError      a setting is invalid, or missing where it is required at start
├── StateNotFoundError      a snapshot does not contain the requested operator or state
├── NotEnoughSlotsError     the job needs more slots than Spark has
├── MasterUnreachableError  the master of the Spark cluster does not answer
├── SessionLostError        the Spark session that the job was given has ended
├── JobError                the job ran and failed
│   ├── UserFunctionError   a user's function raised
│   ├── SourceError         input could not be read or parsed
│   │   └── InputLostError  input that was still to be read is gone
│   ├── TaskLostError       a worker or executor was lost
│   │   └── SparkLostError  Spark's JVM was lost, or a new one could not be started
│   ├── MemoryBudgetError   an operator needs more memory than its slot has
│   ├── StateUnavailableError  state of a running job can't be read at this moment
│   └── CheckpointError     state could not be written, found or restored
│       ├── DamagedCheckpointError  part of a snapshot is missing, truncated or corrupted
│       └── FencedError             another run has taken over the job
└── JobCancelledError       the job was canceled before it produced a result
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.common.text.secrets import redacted


class PenstockError(Exception):
    """Base class of all errors that penstock raises deliberately.

    Their texts are redacted: no secrets, limited length.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(redacted(part) if isinstance(part, str) else part for part in args))


class ProgramError(PenstockError):
    """The program is invalid (two operators with one uid, a missing key, an unbounded source in BATCH)."""


class ConfigurationError(PenstockError):
    """A setting has an invalid value, or a running session lacks a setting that is fixed at its start."""


class StateNotFoundError(PenstockError):
    """A savepoint or checkpoint has no such operator or state; the message lists what it has."""


class NotEnoughSlotsError(PenstockError):
    """The job needs more slots at the same time than Spark has."""


class MasterUnreachableError(PenstockError):
    """No master of the Spark cluster answers or accepts the application."""


class SessionLostError(PenstockError):
    """The user's Spark session was stopped, or its JVM has ended. penstock can't start it again."""


class JobError(PenstockError):
    """The job failed while running."""


class JobNotRunningError(JobError):
    """The job starts or restarts, so it can't do this now. Try again when it runs."""


class UserFunctionError(JobError):
    """A user's function raised. The message has operator, position, value and the traceback of the user's code."""

    def __init__(self, message: str = "", raised: Iterable[str] = ()) -> None:
        """`raised`: the `class_names` of the original exception, by which the JobMaster decides about a restart."""
        super().__init__(message)
        self.raised = frozenset(raised)


class SourceError(JobError):
    """A source can't read its input: a missing file, a line that is not JSON, a truncated archive."""


class InputLostError(SourceError):
    """Input that the job had not read yet is gone, so it cannot continue from its state. Don't retry."""


class TaskLostError(JobError):
    """A worker process, an executor or its heartbeats were lost."""


class SparkLostError(TaskLostError):
    """Spark's JVM has ended, or does not answer, or a new session could not be started in its place."""


class MemoryBudgetError(JobError):
    """An operator needs more memory than its slot has: `taskmanager.memory.managed.size`, or that of the machine."""


class StateUnavailableError(JobError):
    """State can't be read from the tasks at this moment: they restart or do not answer. Retry."""


class CheckpointError(JobError):
    """State could not be written, or stored state is missing, damaged, or belongs to another program."""


class DamagedCheckpointError(CheckpointError):
    """Part of a snapshot is missing, truncated or corrupted. Retrying does not help."""


class FencedError(CheckpointError):
    """Another run has taken over the job, or the job's record is gone: this run may no longer write. Don't retry."""


class JobCancelledError(PenstockError):
    """The job was canceled."""


def class_names(error: BaseException) -> frozenset[str]:
    """Return the names of the class of `error` and its base classes, as tracebacks show them: without `builtins.`."""
    return frozenset(
        kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        for kind in type(error).__mro__
    )
