"""What a stage's function carries to the workers: the level it hosts, and what is needed to load it there."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import msgspec

import penstock
from penstock.common.errors import ConfigurationError
from penstock.common.spark_transport import SparkTransport
from penstock.plan.pickling import dump_level, dump_main_classes, load_level, load_main_classes
from penstock.rpc.keys import ControlAddress
from penstock.runtime.task.vertex import LevelSpec
from penstock.spark.internals.version import check_version


class Payload(msgspec.Struct, frozen=True):
    """Travels inside the function that Spark pickles. `control` is None in batched mode."""

    version: str
    python: str
    level: bytes
    main_classes: bytes
    path: list[str]
    pyflink: bool
    control: ControlAddress | None = None
    heartbeat_ms: int = 1000
    checkpoints: str | None = None
    """The directory of the job's checkpoints."""
    transport: SparkTransport = SparkTransport.PIPES
    """In pipelined mode: how the stage reads and writes its rows."""


def pack(
    levels: list[LevelSpec],
    control: ControlAddress | None,
    heartbeat_ms: int,
    checkpoints: str | None = None,
    transport: SparkTransport = SparkTransport.PIPES,
) -> list[Payload]:
    """A payload per level. Raises ProgramError naming the operator that can't be pickled."""
    alias = sys.modules.get("penstock.common.pyflink_alias")
    pyflink = alias is not None and bool(alias.is_installed())
    classes = dump_main_classes()
    path = [str(Path(entry).absolute()) for entry in sys.path if Path(entry).is_dir()]
    python = "{}.{}".format(*sys.version_info)
    return [
        Payload(
            penstock.__version__,
            python,
            dump_level(level),
            classes,
            path,
            pyflink,
            control,
            heartbeat_ms,
            checkpoints,
            transport,
        )
        for level in levels
    ]


def unpack(payload: Payload) -> LevelSpec:
    """In the worker: the level, with operators of its own.

    Raises ConfigurationError if this worker has another version of penstock or Python than the driver.
    """
    python = "{}.{}".format(*sys.version_info)
    check_version(where="this executor")
    if payload.version != penstock.__version__ or payload.python != python:
        raise ConfigurationError(
            f"this executor has penstock {penstock.__version__} on Python {python}, the driver penstock "
            f"{payload.version} on Python {payload.python}: install the same version on both"
        )
    # Modules beside the job's script: where executors see the same files, they find them by the driver's path.
    sys.path.extend(entry for entry in payload.path if entry not in sys.path)
    if payload.pyflink:
        importlib.import_module("penstock.common.pyflink_alias").install()
    load_main_classes(payload.main_classes)
    return load_level(payload.level)
