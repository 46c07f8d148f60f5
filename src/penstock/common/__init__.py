"""Common definitions of programs: types, rows, configuration, watermark strategies."""

from typing import TYPE_CHECKING

from penstock.common.doors.door import resolve_on_use
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row, RowKind

if TYPE_CHECKING:
    from penstock.common.completable_future import CompletableFuture
    from penstock.common.config_options import ConfigOption, ConfigOptions
    from penstock.common.configuration import Configuration
    from penstock.common.execution_config import ExecutionConfig
    from penstock.common.input_dependency_constraint import InputDependencyConstraint
    from penstock.common.job_client import JobClient
    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.common.job_id import JobID
    from penstock.common.job_listener import JobListener
    from penstock.common.job_status import JobStatus
    from penstock.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
    from penstock.common.serialization import (
        BulkWriter,
        BulkWriterFactory,
        ByteArraySchema,
        DeserializationSchema,
        Encoder,
        SerializationSchema,
        SimpleStringSchema,
    )
    from penstock.common.serializer import TypeSerializer
    from penstock.common.time import Duration, Instant, Time
    from penstock.common.watermark_strategy import WatermarkStrategy

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobListener",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkStrategy",
]
_MODULES = {
    "BulkWriter": "serialization",
    "BulkWriterFactory": "serialization",
    "ByteArraySchema": "serialization",
    "CompletableFuture": "completable_future",
    "ConfigOption": "config_options",
    "ConfigOptions": "config_options",
    "Configuration": "configuration",
    "DeserializationSchema": "serialization",
    "Duration": "time",
    "Encoder": "serialization",
    "ExecutionConfig": "execution_config",
    "InputDependencyConstraint": "input_dependency_constraint",
    "Instant": "time",
    "JobClient": "job_client",
    "JobExecutionResult": "job_execution_result",
    "JobID": "job_id",
    "JobListener": "job_listener",
    "JobStatus": "job_status",
    "RestartStrategies": "restart_strategy",
    "RestartStrategyConfiguration": "restart_strategy",
    "SerializationSchema": "serialization",
    "SimpleStringSchema": "serialization",
    "Time": "time",
    "TypeSerializer": "serializer",
    "WatermarkStrategy": "watermark_strategy",
}
"""Names whose modules are imported when they are first used: commands and `penstock.table` need few of them.

Types are imported at once: `typeinfo` publishes them, and their classes must have this path wherever they are pickled.
"""

resolve_on_use(__name__, _MODULES, publishes=False)
