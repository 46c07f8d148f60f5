"""Read a JobMaster's settings from a configuration. Times are in milliseconds."""

from __future__ import annotations

import dataclasses

from penstock.common.configuration import Configuration, autoscaler_options, options, restart_options, scheduler_options
from penstock.common.configuration.choices import (
    CheckpointingMode,
    ExternalizedCheckpointRetention,
    FailoverStrategy,
    SchedulerExecutionMode,
    SchedulerType,
)
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.errors import ConfigurationError
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings

_REGISTRATION_MS = 120_000


@dataclasses.dataclass(frozen=True)
class JobSettings:
    """Settings of a JobMaster. Defaults are those of the options, where there is one."""

    checkpoints: CheckpointSettings = dataclasses.field(default_factory=CheckpointSettings)
    checkpoint_retention: ExternalizedCheckpointRetention = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
    allow_non_restored_state: bool = False
    heartbeat_timeout_ms: int = 50_000
    cancellation_timeout_ms: int = 180_000
    """0 never abandons tasks that do not end."""
    slot_request_timeout_ms: int = 300_000
    registration_timeout_ms: int = _REGISTRATION_MS
    failure_grace_ms: int = 3_000
    """How long tasks of a failed attempt may take to close before they are abandoned."""
    slots_retry_ms: int = 1_000
    failover_strategy: FailoverStrategy = FailoverStrategy.REGION
    allow_duplicates: bool = False
    """Whether the job may fall back from a damaged checkpoint with which output was committed."""
    has_checkpoint_directory: bool = False
    """Whether the user has set the directory of checkpoints, and so may want to keep them."""
    autoscaler: AutoscalerSettings | None = None
    """Settings of the autoscaler; None if the user sets the parallelism."""
    slot_following: SlotFollowingSettings | None = None
    """Settings to follow slots; None if the job runs only with all slots that it needs."""

    @property
    def slots_wait_ms(self) -> int | None:
        """How long it waits for slots; None waits forever."""
        following = self.slot_following
        return self.slot_request_timeout_ms if following is None else following.wait_ms

    @staticmethod
    def of(configuration: Configuration) -> JobSettings:
        """Return the settings of a configuration. Raises ConfigurationError for contradictory ones."""
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
                "parallelism of a job: remove one of them"
            )
        return JobSettings(
            checkpoints=CheckpointSettings(
                interval_ms=checkpoint_interval_ms(configuration),
                timeout_ms=get(options.CHECKPOINT_TIMEOUT),
                pause_ms=get(options.CHECKPOINT_MIN_PAUSE),
                concurrent_max=get(options.MAX_CONCURRENT_CHECKPOINTS),
                failures_tolerated=get(options.TOLERABLE_FAILED_CHECKPOINTS),
                retained=get(options.RETAINED_CHECKPOINTS),
                has_directory=get(options.CHECKPOINT_DIRECTORY) is not None,
            ),
            checkpoint_retention=get(options.CHECKPOINT_RETENTION),
            allow_non_restored_state=get(options.IGNORE_UNCLAIMED_STATE),
            heartbeat_timeout_ms=get(options.HEARTBEAT_TIMEOUT),
            cancellation_timeout_ms=get(options.TASK_CANCELLATION_TIMEOUT),
            slot_request_timeout_ms=get(options.SLOT_REQUEST_TIMEOUT),
            # Slots register after installing their requirements, which may take long.
            registration_timeout_ms=max(get(options.SLOT_REQUEST_TIMEOUT), _REGISTRATION_MS)
            if get(options.PYTHON_REQUIREMENTS)
            else _REGISTRATION_MS,
            failover_strategy=get(restart_options.FAILOVER_STRATEGY),
            allow_duplicates=allows_duplicates(configuration),
            has_checkpoint_directory=get(options.CHECKPOINT_DIRECTORY) is not None,
            autoscaler=autoscaler,
            slot_following=slot_following,
        )


def allows_duplicates(configuration: Configuration) -> bool:
    """Return whether output may be repeated: an option or the checkpointing mode allows it."""
    at_least_once = configuration.get(options.CHECKPOINTING_MODE) is CheckpointingMode.AT_LEAST_ONCE
    return at_least_once or configuration.get(options.ALLOW_DUPLICATES)


@dataclasses.dataclass(frozen=True)
class SlotFollowingSettings:
    """Settings of a job that follows slots. Defaults are those of the options."""

    reactive: bool
    """Whether the job uses all slots; otherwise at most as many as its program sets."""
    stabilization_ms: int = 10_000
    cooldown_ms: int = 30_000
    increase_min: int = 1
    growth_stabilization_ms: int = 60_000
    wait_ms: int | None = None
    """How long it waits for slots for one subtask of each operator; None waits forever."""

    @staticmethod
    def of(configuration: Configuration) -> SlotFollowingSettings | None:
        """Return the settings of a configuration, or None if the job does not follow slots.

        Raises ConfigurationError if it does and takes no checkpoints.
        """
        get = configuration.get
        reactive = get(scheduler_options.SCHEDULER_MODE) is SchedulerExecutionMode.REACTIVE
        if not reactive and get(scheduler_options.SCHEDULER) is not SchedulerType.ADAPTIVE:
            return None
        if checkpoint_interval_ms(configuration) is None:
            option = scheduler_options.SCHEDULER_MODE if reactive else scheduler_options.SCHEDULER
            raise ConfigurationError(
                f"{option.key} needs {options.CHECKPOINT_INTERVAL.key}: a job is rescaled from a checkpoint"
            )
        return SlotFollowingSettings(
            reactive=reactive,
            stabilization_ms=get(scheduler_options.RESOURCE_STABILIZATION_TIMEOUT),
            cooldown_ms=get(scheduler_options.COOLDOWN_AFTER_RESCALING),
            increase_min=get(scheduler_options.MIN_PARALLELISM_INCREASE),
            growth_stabilization_ms=get(scheduler_options.EXECUTING_STABILIZATION_TIMEOUT),
            wait_ms=_wait_ms(configuration, reactive),
        )


def _wait_ms(configuration: Configuration, reactive: bool) -> int | None:
    wait_ms = configuration.get(scheduler_options.RESOURCE_WAIT_TIMEOUT)
    if wait_ms is None:
        # An administrator may remove all slots of a reactive job on purpose.
        return None if reactive else configuration.get(options.SLOT_REQUEST_TIMEOUT)
    return None if wait_ms < 0 else wait_ms
