"""Execution settings of a program: a typed view of its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import ClosureCleanerLevel
from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.types.whole_numbers import as_int

_KEY_GROUPS_MAX = 2**15


class ExecutionConfig:
    """Execution settings. Setters write to the configuration passed to the constructor.

    PyFlink's settings for Java's serializers and closures (Kryo, Avro, POJOs) are accepted and reported when a job
    starts. They have no effect.
    """

    PARALLELISM_DEFAULT = -1
    """Argument of `set_parallelism` that restores the default of `parallelism.default`."""
    PARALLELISM_UNKNOWN = -2

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def get_parallelism(self) -> int:
        """Return the default parallelism, for operators that do not set theirs."""
        return self._configuration.get(options.PARALLELISM)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the default parallelism of operators. Raises ValueError unless it is 1 or more, or -1 (unset)."""
        if parallelism == self.PARALLELISM_DEFAULT:
            self._configuration.remove_config(options.PARALLELISM.key)
            return self
        parallelism = checked_parallelism("parallelism", parallelism)
        self._configuration.set(options.PARALLELISM, parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, or -1 if it is derived from the parallelism."""
        max_parallelism = self._configuration.get(options.MAX_PARALLELISM)
        return -1 if max_parallelism is None else max_parallelism

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups, which bounds the parallelism of keyed operators.

        Raises ValueError unless it is 1 to 32,768.
        """
        max_parallelism = checked_max_parallelism(max_parallelism)
        self._configuration.set(options.MAX_PARALLELISM, max_parallelism)
        return self

    def get_auto_watermark_interval(self) -> int:
        """Return the interval in milliseconds between calls of `on_periodic_emit`; 0: never called."""
        return self._configuration.get(options.AUTO_WATERMARK_INTERVAL)

    def set_auto_watermark_interval(self, interval: TimeLength) -> ExecutionConfig:
        """Set the interval of periodic watermarks. Raises ValueError if negative."""
        interval_ms = _at_least("the watermark interval in ms", to_milliseconds(interval), 0)
        self._configuration.set(options.AUTO_WATERMARK_INTERVAL, interval_ms)
        return self

    def get_latency_tracking_interval(self) -> int:
        """Return the interval in milliseconds between latency markers of a source; 0: sources send no markers."""
        return self._configuration.get(options.LATENCY_INTERVAL)

    def set_latency_tracking_interval(self, interval: TimeLength) -> ExecutionConfig:
        """Set the interval of latency markers. 0 or less: sources send no markers."""
        self._configuration.set(options.LATENCY_INTERVAL, max(0, to_milliseconds(interval)))
        return self

    def get_task_cancellation_interval(self) -> int:
        """Return the interval in milliseconds between attempts to cancel a task."""
        return self._configuration.get(options.TASK_CANCELLATION_INTERVAL)

    def set_task_cancellation_interval(self, interval: TimeLength) -> ExecutionConfig:
        """Set the interval between attempts to cancel a task. Raises ValueError if negative."""
        interval_ms = _at_least("the cancellation interval in ms", to_milliseconds(interval), 0)
        self._configuration.set(options.TASK_CANCELLATION_INTERVAL, interval_ms)
        return self

    def get_task_cancellation_timeout(self) -> int:
        """Return the time in milliseconds after which workers with tasks still running are killed; 0: never."""
        return self._configuration.get(options.TASK_CANCELLATION_TIMEOUT)

    def set_task_cancellation_timeout(self, timeout: TimeLength) -> ExecutionConfig:
        """Set the time after which workers with tasks still running are killed. Raises ValueError if negative."""
        timeout_ms = _at_least("the cancellation timeout in ms", to_milliseconds(timeout), 0)
        self._configuration.set(options.TASK_CANCELLATION_TIMEOUT, timeout_ms)
        return self

    def enable_generic_types(self) -> ExecutionConfig:
        """Pickle values without a declared type. The default."""
        self._configuration.set(options.GENERIC_TYPES, True)
        return self

    def disable_generic_types(self) -> ExecutionConfig:
        """Log a warning when the job starts, and change nothing: all values between tasks are pickled."""
        self._configuration.set(options.GENERIC_TYPES, False)
        return self

    def has_generic_types_disabled(self) -> bool:
        """Return the value that was set. It has no effect."""
        return not self._configuration.get(options.GENERIC_TYPES)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Derive the uid of operators without one from the graph. The default."""
        self._configuration.set(options.AUTO_GENERATE_UIDS, True)
        return self

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Refuse jobs with an operator without a uid, whose state might not be found after a change of the program.

        The start of such a job raises ProgramError. Source: Flink docs, `pipeline.auto-generate-uids`.
        """
        self._configuration.set(options.AUTO_GENERATE_UIDS, False)
        return self

    def has_auto_generated_uids_enabled(self) -> bool:
        """Return whether operators without a uid get a derived one."""
        return self._configuration.get(options.AUTO_GENERATE_UIDS)

    def enable_object_reuse(self) -> ExecutionConfig:
        """Pass mutable values between chained operators without copies.

        A function must then neither change nor keep its input or the values that it has emitted. Source: Flink docs,
        "Execution Configuration".
        """
        self._configuration.set(options.OBJECT_REUSE, True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """Copy mutable values when they are emitted. The default."""
        self._configuration.set(options.OBJECT_REUSE, False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Return whether values pass between chained operators without copies."""
        return self._configuration.get(options.OBJECT_REUSE)

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters that functions can read."""
        parameters = self._configuration.get(options.GLOBAL_JOB_PARAMETERS)
        return parameters.copy()

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, str]) -> ExecutionConfig:
        """Set the parameters that functions read with `RuntimeContext.get_job_parameter`."""
        self._configuration.set(options.GLOBAL_JOB_PARAMETERS, dict(global_job_parameters_dict))
        return self

    def is_use_snapshot_compression(self) -> bool:
        """Return the value that was set. It has no effect."""
        return self._configuration.get(options.SNAPSHOT_COMPRESSION)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Log a warning when the job starts, and change nothing: snapshots are not compressed."""
        self._configuration.set(options.SNAPSHOT_COMPRESSION, use_snapshot_compression)
        return self

    # Settings for functions and serializers in Java. Source: PyFlink's methods of these names.

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """Change nothing: a function is always sent only with the objects that it uses."""
        self._configuration.set(options.CLOSURE_CLEANER_LEVEL, ClosureCleanerLevel.RECURSIVE)
        return self

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """Log a warning when the job starts, and change nothing: there is no cleaner to turn off."""
        self._configuration.set(options.CLOSURE_CLEANER_LEVEL, ClosureCleanerLevel.NONE)
        return self

    def is_closure_cleaner_enabled(self) -> bool:
        """Return the value that was set. It has no effect."""
        return self._configuration.get(options.CLOSURE_CLEANER_LEVEL) is not ClosureCleanerLevel.NONE

    def enable_force_kryo(self) -> ExecutionConfig:
        """Log a warning when the job starts, and change nothing: values are pickled."""
        self._configuration.set(options.FORCE_KRYO, True)
        return self

    def disable_force_kryo(self) -> ExecutionConfig:
        """Restore the default of `enable_force_kryo`."""
        self._configuration.set(options.FORCE_KRYO, False)
        return self

    def is_force_kryo_enabled(self) -> bool:
        """Return the value that was set. It has no effect."""
        return self._configuration.get(options.FORCE_KRYO)

    def enable_force_avro(self) -> ExecutionConfig:
        """Log a warning when the job starts, and change nothing: values are pickled."""
        self._configuration.set(options.FORCE_AVRO, True)
        return self

    def disable_force_avro(self) -> ExecutionConfig:
        """Restore the default of `enable_force_avro`."""
        self._configuration.set(options.FORCE_AVRO, False)
        return self

    def is_force_avro_enabled(self) -> bool:
        """Return the value that was set. It has no effect."""
        return self._configuration.get(options.FORCE_AVRO)

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Return an empty dict: Kryo serializes nothing, so serializers can't be registered."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Return an empty list: Java types can't be registered."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Return an empty list: Java types can't be registered."""
        return []

    def __eq__(self, other: object) -> bool:
        return self._configuration == other._configuration if isinstance(other, ExecutionConfig) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._configuration)


def checked_parallelism(what: str, value: object) -> int:
    """Return `value` as an int. Raises ValueError if it can't be a parallelism."""
    number = as_int(value)
    if number is None or number < 1:
        raise ValueError(f"{what} must be an int of 1 or more, got {value!r}")
    return number


def checked_max_parallelism(value: object) -> int:
    """Return `value` as an int. Raises ValueError if it can't be a number of key groups."""
    number = checked_parallelism("maximum parallelism", value)
    if number > _KEY_GROUPS_MAX:
        raise ValueError(f"maximum parallelism must be at most {_KEY_GROUPS_MAX}, got {number}")
    return number


def _at_least(what: str, value: int, least: int) -> int:
    if value < least:
        raise ValueError(f"{what} must be {least} or more, got {value!r}")
    return value
