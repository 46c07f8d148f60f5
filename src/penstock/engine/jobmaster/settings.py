"""What of a job's configuration its job master needs. Times in milliseconds."""

from __future__ import annotations

import dataclasses

from penstock.common.configuration import Configuration, autoscaler_options, options, restart_options, scheduler_options
from penstock.common.configuration.choices import CheckpointingMode, ExternalizedCheckpointRetention, FailoverStrategy
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.errors import ConfigurationError
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.jobmaster.slot_following_settings import SlotFollowingSettings

_REGISTRATION_MS = 120_000


@dataclasses.dataclass(frozen=True)
class JobSettings:
    """Defaults are those of the configuration's options, where they have one."""

    checkpoints: CheckpointSettings = dataclasses.field(default_factory=CheckpointSettings)
    checkpoint_retention: ExternalizedCheckpointRetention = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    allow_non_restored_state: bool = False
    heartbeat_timeout_ms: int = 50_000
    cancellation_timeout_ms: int = 180_000
    """0: tasks that do not end are never abandoned."""
    slot_request_timeout_ms: int = 300_000
    registration_timeout_ms: int = _REGISTRATION_MS
    failure_grace_ms: int = 3_000
    """How long the tasks of a failed attempt have to close before they are abandoned."""
    slots_retry_ms: int = 1_000
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    allow_duplicates: bool = False
    """Whether the job falls back from a damaged checkpoint though output has been committed with it."""
    has_checkpoint_directory: bool = False
    """Whether the user has named the directory of checkpoints: that they are deleted concerns him then."""
    autoscaler: AutoscalerSettings | None = None
    """None: the parallelism is the user's."""
    slot_following: SlotFollowingSettings | None = None
    """None: the job runs with all slots that it needs, or not."""

    @property
    def slots_wait_ms(self) -> int | None:
        """How long it waits for slots; None: for ever."""
        following = self.slot_following
        return self.slot_request_timeout_ms if following is None else following.wait_ms

    @staticmethod
    def of(configuration: Configuration) -> JobSettings:
        """The settings that a configuration holds. Raises ConfigurationError for some that contradict each other."""
        get = configuration.get
        autoscaler = AutoscalerSettings.of(configuration)
        if autoscaler is not None and checkpoint_interval_ms(configuration) is None:
            raise ConfigurationError(
                f"{autoscaler_options.ENABLED.key} needs {options.CHECKPOINT_INTERVAL.key}: a job is rescaled from a "
                "checkpoint"
            )
        slot_following = SlotFollowingSettings.of(configuration)
        if autoscaler is not None and slot_following is not None:
            raise ConfigurationError(
                f"{autoscaler_options.ENABLED.key} and {scheduler_options.SCHEDULER_MODE.key} can't both choose the "
                "parallelism of a job: leave one of them out"
            )
        return JobSettings(
            CheckpointSettings(
                checkpoint_interval_ms(configuration),
                get(options.CHECKPOINT_TIMEOUT),
                get(options.CHECKPOINT_MIN_PAUSE),
                get(options.MAX_CONCURRENT_CHECKPOINTS),
                get(options.TOLERABLE_FAILED_CHECKPOINTS),
                get(options.RETAINED_CHECKPOINTS),
                get(options.CHECKPOINT_DIRECTORY) is not None,
            ),
            get(options.CHECKPOINT_RETENTION),
            get(options.IGNORE_UNCLAIMED_STATE),
            get(options.HEARTBEAT_TIMEOUT),
            get(options.TASK_CANCELLATION_TIMEOUT),
            get(options.SLOT_REQUEST_TIMEOUT),
            # Slots register when their requirements are installed, which may take as long as any.
            max(get(options.SLOT_REQUEST_TIMEOUT), _REGISTRATION_MS)
            if get(options.PYTHON_REQUIREMENTS)
            else _REGISTRATION_MS,
            failover_strategy=get(restart_options.FAILOVER_STRATEGY),
            allow_duplicates=allows_duplicates(configuration),
            has_checkpoint_directory=get(options.CHECKPOINT_DIRECTORY) is not None,
            autoscaler=autoscaler,
            slot_following=slot_following,
        )


def allows_duplicates(configuration: Configuration) -> bool:
    """Whether output may come twice: the user has said so, or the mode of checkpoints promises no more."""
    at_least_once = configuration.get(options.CHECKPOINTING_MODE) is CheckpointingMode.AT_LEAST_ONCE
    return at_least_once or configuration.get(options.ALLOW_DUPLICATES)
