"""Optional dependencies: the extras of pyproject.toml, as arguments of pip.

Messages name the extra rather than the package, so that pip selects a compatible version and all packages of the extra.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Final

from penstock.common.errors import ConfigurationError

ADBC: Final = "penstock-streams[adbc]"
AVRO: Final = "penstock-streams[avro]"
DELTA: Final = "penstock-streams[delta]"
ICEBERG: Final = "penstock-streams[iceberg]"
SQL: Final = "penstock-streams[sql]"
DASHBOARD: Final = "penstock-streams[dashboard]"
ROCKSDB: Final = "penstock-streams[rocksdb]"
S3: Final = "penstock-streams[s3]"
KAFKA: Final = "penstock-streams[kafka]"
PROTOBUF: Final = "penstock-streams[protobuf]"
POLARS: Final = "penstock-streams[polars]"
POSTGRES: Final = "penstock-streams[postgres]"
REDIS: Final = "penstock-streams[redis]"
ZOOKEEPER: Final = "penstock-streams[zookeeper]"
OTEL: Final = "penstock-streams[otel]"
DEMO: Final = "penstock-streams[demo]"


def package_of(extra: str, needs: str, *modules: str) -> ModuleType:
    """Import modules of an extra, and return the package of the first.

    Raises ConfigurationError if one is not installed. Its message begins with `needs`: what needs which package.
    """
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(f"{needs}: pip install '{extra}'") from error
    return sys.modules[modules[0].partition(".")[0]]
