"""What the function of a stage carries to the workers: the level that it hosts, and all that loading it there takes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import msgspec

import penstock
from penstock.common.configuration.choices import SparkTransport
from penstock.common.errors import ConfigurationError
from penstock.engine.plan.pickling import dump_level, dump_main_classes, load_level, load_main_classes
from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.runtime.task.vertex import LevelSpec
from penstock.engine.runtime.task.worker_slots import slots_of
from penstock.hosts.logs.settings import LogSettings
from penstock.hosts.spark.internals.version import check_version
from penstock.hosts.spark.job_files import JobFiles
from penstock.hosts.spark.worker.job_files import enter

_NO_FILES = JobFiles()


class Payload(msgspec.Struct, frozen=True):
    """Is pickled with the function of a stage. `checkpoints` is None in batched mode."""

    version: str
    python: str
    level: bytes
    main_classes: bytes
    files: JobFiles
    pyflink: bool
    control: ControlAddress | None = None
    heartbeat_ms: int = 1000
    checkpoints: str | None = None
    """The directory of the job's checkpoints."""
    transport: SparkTransport = SparkTransport.PIPES
    """In pipelined mode: how the stage reads and writes its rows."""
    number: int = 0
    """Of the level. What is written to the log while it is unpickled is marked with it."""
    logs: LogSettings | None = None
    """None: no logs are kept."""
    slots: int = 0
    """In pipelined mode: how many slots the level has, and how many workers host them."""
    workers: int = 0
    reports: bool = False
    """In batched mode: whether slots tell the driver how they go. Else only those connect that have results, or whose
    logs the driver does not see."""

    def slots_of(self, worker: int) -> Sequence[int]:
        """Return the slots that a worker of a pipelined level hosts, in ascending order."""
        return slots_of(worker, self.slots, self.workers)


def this_python() -> str:
    """The version of this process's Python, up to the second number: code of another one can't be loaded."""
    return "{}.{}".format(*sys.version_info)


def pack(
    levels: list[LevelSpec],
    control: ControlAddress | None,
    heartbeat_ms: int,
    checkpoints: str | None = None,
    transport: SparkTransport = SparkTransport.PIPES,
    files: JobFiles = _NO_FILES,
    logs: LogSettings | None = None,
) -> list[Payload]:
    """A payload per level; `heartbeat_ms` is the interval of a slot's heartbeats, `files` what travels with the job.

    Raises ProgramError that names the operator which can't be pickled.
    """
    alias = sys.modules.get("penstock.common.doors.pyflink_alias")
    pyflink = alias is not None and bool(alias.is_installed())
    classes = dump_main_classes()
    python = this_python()
    return [
        Payload(
            penstock.__version__,
            python,
            dump_level(level),
            classes,
            files,
            pyflink,
            control,
            heartbeat_ms,
            checkpoints,
            transport,
            level.level,
            logs,
            width := level.widths[level.level],
            level.workers[level.level] if level.workers else width,
        )
        for level in levels
    ]


def unpack(payload: Payload) -> LevelSpec:
    """In a worker: the level, with its own copy of all operators. Also makes this a worker of the job (`enter`).

    Raises ConfigurationError if this worker has another version of penstock or Python than the driver, or a version of
    PySpark that is not supported, or if the job's requirements can't be installed.
    """
    python = this_python()
    check_version(where="this executor")
    if payload.version != penstock.__version__ or payload.python != python:
        raise ConfigurationError(
            f"this executor has penstock {penstock.__version__} on Python {python}, the driver penstock "
            f"{payload.version} on Python {payload.python}: install the same version on both"
        )
    enter(payload.files)
    if payload.pyflink:
        importlib.import_module("penstock.common.doors.pyflink_alias").install()
    load_main_classes(payload.main_classes)
    return load_level(payload.level)


def unpack_again(payload: Payload) -> LevelSpec:
    """In a worker that has unpacked it: the level once more, with another copy of all operators, for another slot."""
    return load_level(payload.level)
