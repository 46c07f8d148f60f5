"""What of its configuration a job needs that follows the slots that there are. Times in milliseconds."""

from __future__ import annotations

import dataclasses

from penstock.common.configuration import Configuration, options, scheduler_options
from penstock.common.configuration.choices import SchedulerExecutionMode, SchedulerType
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.errors import ConfigurationError


@dataclasses.dataclass(frozen=True)
class SlotFollowingSettings:
    """Defaults are those of the configuration's options."""

    reactive: bool
    """Whether the job takes all slots; else as many as its program asks for, or fewer."""
    stabilization_ms: int = 10_000
    cooldown_ms: int = 30_000
    increase_min: int = 1
    growth_stabilization_ms: int = 60_000
    wait_ms: int | None = None
    """How long it waits for slots for one subtask of each operator; None: for ever."""

    @staticmethod
    def of(configuration: Configuration) -> SlotFollowingSettings | None:
        """The settings that a configuration holds; None: the job does not follow slots.

        Raises ConfigurationError if it does, and takes no checkpoints from which it could go on.
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
            reactive,
            get(scheduler_options.RESOURCE_STABILIZATION_TIMEOUT),
            get(scheduler_options.COOLDOWN_AFTER_RESCALING),
            get(scheduler_options.MIN_PARALLELISM_INCREASE),
            get(scheduler_options.EXECUTING_STABILIZATION_TIMEOUT),
            _wait_ms(configuration, reactive),
        )


def _wait_ms(configuration: Configuration, reactive: bool) -> int | None:
    wait_ms = configuration.get(scheduler_options.RESOURCE_WAIT_TIMEOUT)
    if wait_ms is None:
        # Whoever decides about the slots of a reactive job may have a reason to take all of them.
        return None if reactive else configuration.get(options.SLOT_REQUEST_TIMEOUT)
    return None if wait_ms < 0 else wait_ms
