"""Settings of checkpoints: a typed view over the options `execution.checkpointing.*` of a configuration."""

from __future__ import annotations

from penstock.common import options
from penstock.common.checkpointing import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.common.configuration import Configuration
from penstock.common.time import Duration, TimeLength, to_milliseconds

_TOLERATES_ALL = 2**31 - 1
_INTERVAL_MS_MIN = 10


class CheckpointConfig:
    """How a job's checkpoints are taken and kept. Setters write into the configuration that it was made with.

    Lengths of time are given as Duration, Time, timedelta or int milliseconds, and returned as int milliseconds.
    Source: Flink docs, "Checkpointing".
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = Configuration() if configuration is None else configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken: an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What state says after a recovery."""
        return self._configuration.get(options.CHECKPOINTING_MODE)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Set what state says after a recovery."""
        self._configuration.set(options.CHECKPOINTING_MODE, checkpointing_mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Milliseconds from the start of one checkpoint to the next; -1: none are taken."""
        interval_ms = self._configuration.get(options.CHECKPOINT_INTERVAL)
        return -1 if interval_ms is None else interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: TimeLength) -> CheckpointConfig:
        """Set how often checkpoints are taken. Raises ValueError if that is less than 10 ms."""
        return self._set_ms(options.CHECKPOINT_INTERVAL.key, checkpoint_interval, _INTERVAL_MS_MIN)

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds after which a checkpoint that is not complete is given up."""
        return self._configuration.get(options.CHECKPOINT_TIMEOUT)

    def set_checkpoint_timeout(self, checkpoint_timeout: TimeLength) -> CheckpointConfig:
        """Set after what time a checkpoint is given up. Raises ValueError if that is less than 10 ms."""
        return self._set_ms(options.CHECKPOINT_TIMEOUT.key, checkpoint_timeout, _INTERVAL_MS_MIN)

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds that lie at least between the end of one checkpoint and the start of the next."""
        return self._configuration.get(options.CHECKPOINT_MIN_PAUSE)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: TimeLength) -> CheckpointConfig:
        """Set the pause after a checkpoint. Raises ValueError if negative."""
        return self._set_ms(options.CHECKPOINT_MIN_PAUSE.key, min_pause_between_checkpoints, 0)

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at once."""
        return self._configuration.get(options.MAX_CONCURRENT_CHECKPOINTS)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Set how many checkpoints may be under way at once. Raises ValueError unless 1 or more."""
        if max_concurrent_checkpoints < 1:
            raise ValueError(f"at least 1 checkpoint must be allowed at once, got {max_concurrent_checkpoints!r}")
        self._configuration.set(options.MAX_CONCURRENT_CHECKPOINTS, max_concurrent_checkpoints)
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether the first failed checkpoint fails the job."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Let the first failed checkpoint fail the job, or none ever. Flink calls this deprecated."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _TOLERATES_ALL)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints may fail one after the other before the job does."""
        return self._configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Set how many checkpoints may fail one after the other. Raises ValueError if negative."""
        if tolerable_checkpoint_failure_number < 0:
            raise ValueError(f"failures are counted from 0, got {tolerable_checkpoint_failure_number!r}")
        self._configuration.set(options.TOLERABLE_FAILED_CHECKPOINTS, tolerable_checkpoint_failure_number)
        return self

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what becomes of the last checkpoints when the job is cancelled."""
        self._configuration.set(options.CHECKPOINT_RETENTION, retention_mode)
        return self

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether checkpoints outlive a failed job."""
        retention = self.get_externalized_checkpoint_retention()
        return retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What becomes of the last checkpoints when the job is cancelled."""
        return self._configuration.get(options.CHECKPOINT_RETENTION)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether unaligned checkpoints were asked for."""
        return self._configuration.get(options.UNALIGNED_CHECKPOINTS)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Ask for checkpoints that hold records in flight in the place of waiting for them."""
        self._configuration.set(options.UNALIGNED_CHECKPOINTS, enabled)
        return self

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Ask for aligned checkpoints, the default."""
        return self.enable_unaligned_checkpoints(False)

    def set_aligned_checkpoint_timeout(self, alignment_timeout: TimeLength) -> CheckpointConfig:
        """Set after what time an aligned checkpoint becomes an unaligned one, if these are enabled."""
        return self._set_ms(options.ALIGNED_CHECKPOINT_TIMEOUT.key, alignment_timeout, 0)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """After what time an aligned checkpoint becomes an unaligned one."""
        return Duration.of_millis(self._configuration.get(options.ALIGNED_CHECKPOINT_TIMEOUT))

    def set_alignment_timeout(self, alignment_timeout: TimeLength) -> CheckpointConfig:
        """The same as `set_aligned_checkpoint_timeout`, which Flink prefers."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def get_alignment_timeout(self) -> Duration:
        """The same as `get_aligned_checkpoint_timeout`, which Flink prefers."""
        return self.get_aligned_checkpoint_timeout()

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Ask for unaligned checkpoints even where a program has cycles or custom partitioners."""
        self._configuration.set(options.FORCE_UNALIGNED_CHECKPOINTS, force_unaligned_checkpoints)
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether unaligned checkpoints were asked for in any case."""
        return self._configuration.get(options.FORCE_UNALIGNED_CHECKPOINTS)

    def _set_ms(self, key: str, length: TimeLength, least_ms: int) -> CheckpointConfig:
        length_ms = to_milliseconds(length)
        if length_ms < least_ms:
            raise ValueError(f"{key} must be {least_ms} ms or more, got {length_ms} ms")
        self._configuration.set_string(key, f"{length_ms} ms")
        return self
