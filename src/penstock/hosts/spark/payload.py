"""The payload of a stage's function: the level that its workers host, and all that they need to load it."""

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
from penstock.hosts.spark.worker.job_files import set_up_files

_NO_FILES = JobFiles()


class Payload(msgspec.Struct, frozen=True):
    """The content that is pickled with the function of a stage."""

    version: str
    python: str
    level: bytes
    main_classes: bytes
    files: JobFiles
    pyflink: bool
    control: ControlAddress | None = None
    heartbeat_ms: int = 1000
    checkpoints: str | None = None
    """The directory of the job's checkpoints; None in batched mode."""
    transport: SparkTransport = SparkTransport.PIPES
    """In pipelined mode: how the stage reads and writes its rows."""
    number: int = 0
    """The number of the level, which marks log lines that are written while the level is unpickled."""
    logs: LogSettings | None = None
    """Settings of the job's logs; None: there are no logs."""
    slots: int = 0
    """In pipelined mode: the number of slots of the level."""
    workers: int = 0
    """In pipelined mode: the number of workers that host these slots."""
    reports: bool = False
    """In batched mode: whether all slots send reports to the driver. Otherwise a slot connects only if it has results,
    or if the driver cannot see its log folder."""

    def slots_of(self, worker: int) -> Sequence[int]:
        """Return the slots that a worker of a pipelined level hosts, in ascending order."""
        return slots_of(worker, self.slots, self.workers)


def this_python() -> str:
    """Return this Python's major and minor version. Code that another one pickled cannot be loaded."""
    return "{}.{}".format(*sys.version_info)


def pack(
    levels: list[LevelSpec],
    control: ControlAddress | None,
    heartbeat_ms: int,
    *,
    checkpoints: str | None = None,
    transport: SparkTransport = SparkTransport.PIPES,
    files: JobFiles = _NO_FILES,
    logs: LogSettings | None = None,
) -> list[Payload]:
    """Return a payload for each level. `heartbeat_ms`: the interval of a slot's heartbeats.

    Raises ProgramError, which names the operator, if an operator cannot be pickled.
    """
    common = without_level(files)
    return [
        msgspec.structs.replace(
            common,
            level=dump_level(level),
            control=control,
            heartbeat_ms=heartbeat_ms,
            checkpoints=checkpoints,
            transport=transport,
            number=level.level,
            logs=logs,
            slots=(width := level.widths[level.level]),
            workers=level.workers[level.level] if level.workers else width,
        )
        for level in levels
    ]


def without_level(files: JobFiles) -> Payload:
    """Return what workers need to load functions of the program, also those that run without a job."""
    alias = sys.modules.get("penstock.common.doors.pyflink_alias")
    return Payload(
        version=penstock.__version__,
        python=this_python(),
        level=b"",
        main_classes=dump_main_classes(),
        files=files,
        pyflink=alias is not None and bool(alias.is_installed()),
    )


def unpack(payload: Payload) -> LevelSpec:
    """Return the level, with a copy of all operators, in a worker. Also calls `set_up`, and raises its errors."""
    set_up(payload)
    return load_level(payload.level)


def set_up(payload: Payload) -> None:
    """Set up the job's files and the script's classes in a worker, so that its functions can be unpickled.

    Raises ConfigurationError if this worker's version of penstock or Python differs from the driver's, if its version
    of PySpark is not supported, or if the job's requirements cannot be installed.
    """
    python = this_python()
    check_version(where="this executor")
    if payload.version != penstock.__version__ or payload.python != python:
        raise ConfigurationError(
            f"this executor has penstock {penstock.__version__} on Python {python}, the driver penstock "
            f"{payload.version} on Python {payload.python}: install the same version on both"
        )
    set_up_files(payload.files)
    if payload.pyflink:
        importlib.import_module("penstock.common.doors.pyflink_alias").install()
    load_main_classes(payload.main_classes)


def unpack_again(payload: Payload) -> LevelSpec:
    """Return another copy of the level, for another slot of a worker that has already called `unpack`."""
    return load_level(payload.level)
