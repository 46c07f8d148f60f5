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
│   │   └── InputLostError  input is gone that had still to be read
│   ├── TaskLostError       a worker or executor was lost
│   │   └── SparkLostError  Spark's JVM was lost, or a new one could not be started
│   ├── StateUnavailableError  state of a running job can't be read at this moment
│   └── CheckpointError     state could not be written, found or restored
│       ├── DamagedCheckpointError  part of a snapshot is missing, truncated or corrupted
│       └── FencedError             another run has taken the job over
└── JobCancelledError       the job was cancelled before it produced a result
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.common.text.secrets import told


class PenstockError(Exception):
    """Base class of all errors that penstock raises deliberately. Their texts are `told`: no secrets, and an end."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(told(part) if isinstance(part, str) else part for part in args))


class ProgramError(PenstockError):
    """The program is invalid (two operators with one uid, a missing key, an unbounded source in BATCH)."""


class ConfigurationError(PenstockError):
    """A setting has an invalid value, or a running session lacks a setting that is fixed at its start."""


class StateNotFoundError(PenstockError):
    """A savepoint or checkpoint has no such operator or state; the message lists what it has."""


class NotEnoughSlotsError(PenstockError):
    """The job needs more slots at once than Spark has."""


class MasterUnreachableError(PenstockError):
    """No master of the Spark cluster answers, or none has taken the application."""


class SessionLostError(PenstockError):
    """The Spark session that the user has started was stopped, or its JVM has ended: penstock can't start it again."""


class JobError(PenstockError):
    """The job failed while running."""


class UserFunctionError(JobError):
    """A user's function raised. The message names operator, position and value, and has the user's own traceback."""

    def __init__(self, message: str = "", raised: Iterable[str] = ()) -> None:
        """`raised`: `class_names` of what the function raised, which the job master decides by."""
        super().__init__(message)
        self.raised = frozenset(raised)


class SourceError(JobError):
    """A source can't read its input: a missing file, a line that is not JSON, a truncated archive."""


class InputLostError(SourceError):
    """Input is gone that the job had still to read: it cannot go on from its state. Don't retry."""


class TaskLostError(JobError):
    """A worker process, an executor or its heartbeats were lost."""


class SparkLostError(TaskLostError):
    """Spark's JVM has ended, or does not answer, or a new session could not be started in its place."""


class StateUnavailableError(JobError):
    """State can't be read from the tasks at this moment: they restart, or don't answer. To try again helps."""


class CheckpointError(JobError):
    """State could not be written, or stored state is missing, damaged, or belongs to another program."""


class DamagedCheckpointError(CheckpointError):
    """Part of a snapshot is missing, truncated or corrupted. Retrying does not help."""


class FencedError(CheckpointError):
    """Another run has taken the job over, or its record is gone: this run may no longer write. Don't retry."""


class JobCancelledError(PenstockError):
    """The job was cancelled."""


def class_names(error: BaseException) -> frozenset[str]:
    """The names of the class of `error` and of its base classes, as tracebacks show them: built-in ones bare."""
    return frozenset(
        kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        for kind in type(error).__mro__
    )
