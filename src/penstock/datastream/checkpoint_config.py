"""Checkpoint settings: a typed view of the options `execution.checkpointing.*`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.common.doors import pyflink_names
from penstock.common.time import Duration, TimeLength, to_milliseconds

_TOLERATES_ALL = 2**31 - 1
_INTERVAL_MS_MIN = 10


class CheckpointConfig:
    """Settings of checkpoints. Setters write to the configuration passed to the constructor.

    Setters accept durations as Duration, Time, timedelta or int milliseconds; getters return int milliseconds. Source:
    Flink docs, "Checkpointing".
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise pyflink_names.missing_method(type(self), name)

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Return whether checkpoints are enabled: an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the consistency mode. As in Flink it is AT_LEAST_ONCE while checkpoints are disabled."""
        if not self.is_checkpointing_enabled():
            return CheckpointingMode.AT_LEAST_ONCE
        return self._configuration.get(options.CHECKPOINTING_MODE)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set the consistency mode."""
        self._configuration.set(options.CHECKPOINTING_MODE, checkpointing_mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the milliseconds from the start of one checkpoint to the start of the next, or -1 if disabled."""
        interval_ms = self._configuration.get(options.CHECKPOINT_INTERVAL)
        return -1 if interval_ms is None else interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: TimeLength) -> CheckpointConfig:
        """Set the checkpoint interval. Raises ValueError if it is below 10 ms."""
        return self._set_ms(options.CHECKPOINT_INTERVAL.key, checkpoint_interval, _INTERVAL_MS_MIN)

    def get_checkpoint_timeout(self) -> int:
        """Return the milliseconds after which an incomplete checkpoint is aborted."""
        return self._configuration.get(options.CHECKPOINT_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: TimeLength) -> CheckpointConfig:
        """Set the time after which an incomplete checkpoint is aborted. Raises ValueError if it is below 10 ms."""
        return self._set_ms(options.CHECKPOINT_TIMEOUT.key, checkpoint_timeout, _INTERVAL_MS_MIN)

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the minimum milliseconds between the end of one checkpoint and the start of the next."""
        return self._configuration.get(options.CHECKPOINT_MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: TimeLength) -> CheckpointConfig:
        """Set the minimum pause between checkpoints. Above 0 they never overlap. Raises ValueError if negative."""
        return self._set_ms(options.CHECKPOINT_MIN_PAUSE.key, min_pause_between_checkpoints, 0)

    def get_max_concurrent_checkpoints(self) -> int:
        """Return the maximum number of concurrent checkpoints."""
        return self._configuration.get(options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set the maximum number of concurrent checkpoints. Raises ValueError if below 1."""
        if max_concurrent_checkpoints < 1:
            raise ValueError(f"max_concurrent_checkpoints must be 1 or more, got {max_concurrent_checkpoints!r}")
        self._configuration.set(options.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Make the first failed checkpoint fail the job, or tolerate all failures. Deprecated in Flink."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _TOLERATES_ALL)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many consecutive checkpoints may fail before the job fails."""
        return self._configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many consecutive checkpoints may fail before the job fails. Raises ValueError if negative."""
        if tolerable_checkpoint_failure_number < 0:
            raise ValueError(f"the tolerable failures must be 0 or more, got {tolerable_checkpoint_failure_number!r}")
        self._configuration.set(options.TOLERABLE_FAILED_CHECKPOINTS, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set whether the latest checkpoints are retained when the job is canceled."""
        self._configuration.set(options.CHECKPOINT_RETENTION, retention_mode)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether the latest checkpoints are retained when the job is canceled."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return the retention of checkpoints when the job is canceled."""
        return self._configuration.get(options.CHECKPOINT_RETENTION)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether barriers may overtake records.

        It is False for AT_LEAST_ONCE, whose barriers are not aligned.
        """
        is_exactly_once = self.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
        return is_exactly_once and self._configuration.get(options.UNALIGNED_CHECKPOINTS)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Let barriers overtake records instead of waiting for them. Overtaken records are stored with the checkpoint.

        Savepoints, loops and broadcast inputs stay aligned. Source: Flink docs, "State Backends & Checkpointing",
        unaligned checkpoints.
        """
        self._configuration.set(options.UNALIGNED_CHECKPOINTS, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Let tasks align barriers. The default."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: TimeLength) -> CheckpointConfig:
        """Set the age at which a checkpoint becomes unaligned, if unaligned checkpoints are enabled."""
        return self._set_ms(options.ALIGNED_CHECKPOINT_TIMEOUT.key, alignment_timeout, 0)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """Return the age at which an aligned checkpoint becomes unaligned."""
        return Duration.of_millis(self._configuration.get(options.ALIGNED_CHECKPOINT_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: TimeLength) -> CheckpointConfig:
        """Call `set_aligned_checkpoint_timeout`, the name that Flink prefers."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """Call `get_aligned_checkpoint_timeout`, the name that Flink prefers."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Let barriers overtake records even for programs with cycles or custom partitioners."""
        self._configuration.set(options.FORCE_UNALIGNED_CHECKPOINTS, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return whether unaligned checkpoints are forced."""
        return self._configuration.get(options.FORCE_UNALIGNED_CHECKPOINTS)

    def _set_ms(self, key: str, length: TimeLength, least_ms: int) -> CheckpointConfig:
        length_ms = to_milliseconds(length)
        if length_ms < least_ms:
            raise ValueError(f"{key} must be {least_ms} ms or more, got {length_ms} ms")
        self._configuration.set_string(key, f"{length_ms} ms")
        return self


pyflink_names.resolve_missing_names(__name__)
