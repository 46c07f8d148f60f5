"""What penstock raises, one tree.

PenstockError
├── ProgramError            the program itself is wrong: known before anything runs
├── ConfigurationError      a setting is wrong, or missing where it must be set at start
├── StateNotFoundError      a snapshot was asked for an operator or a state that it does not have
├── NotEnoughSlotsError     the job needs more slots than Spark has
├── JobError                the job ran and failed
│   ├── UserFunctionError   a user's function raised
│   ├── SourceError         input that could not be read or understood
│   ├── TaskLostError       a worker or executor went away
│   └── CheckpointError     state that could not be written, found or read back
└── JobCancelledError       the job was cancelled before it gave a result
"""

from __future__ import annotations


class PenstockError(Exception):
    """Base of all errors that penstock raises on purpose."""


class ProgramError(PenstockError):
    """The program is wrong in itself (two operators with one uid, a missing key, an unbounded source in BATCH)."""


class ConfigurationError(PenstockError):
    """A setting has a wrong value, or a running session lacks one that is fixed at its start."""


class StateNotFoundError(PenstockError):
    """A savepoint or checkpoint has no such operator or state: the message says what it has."""


class NotEnoughSlotsError(PenstockError):
    """The job needs more slots at once than Spark has."""


class JobError(PenstockError):
    """The job failed while it ran."""


class UserFunctionError(JobError):
    """A user's function raised: the message says whose, where and on which value, with the user's own traceback."""


class SourceError(JobError):
    """A source met input that it can't read: a missing file, a line that is not JSON, a truncated archive."""


class TaskLostError(JobError):
    """A worker process, an executor or its heartbeats went away."""


class CheckpointError(JobError):
    """State could not be written, or what was written is missing, damaged, or not that of this program."""


class DamagedCheckpointError(CheckpointError):
    """A part of a snapshot is missing, cut off, or not what was written: it will not get better."""


class JobCancelledError(PenstockError):
    """The job was cancelled."""
