"""What of a job's configuration the autoscaler needs. Times in milliseconds."""

from __future__ import annotations

import dataclasses

from penstock.common.configuration import Configuration
from penstock.common.configuration import autoscaler_options as options
from penstock.common.configuration.choices import KeyGroupOrPartitionsAdjustMode, MetricAggregator
from penstock.common.errors import ConfigurationError

_SAMPLES_IN_WINDOW = 30
_DIGITS = 6


@dataclasses.dataclass(frozen=True)
class AutoscalerSettings:
    """Defaults are those of the configuration's options."""

    is_scaling: bool = True
    """false: what would be done is only said."""
    stabilization_ms: int = 300_000
    window_ms: int = 900_000
    utilization: float = 0.7
    utilization_max: float = 1.0
    utilization_min: float = 0.4
    scale_down_interval_ms: int = 3_600_000
    scale_down_factor_max: float = 0.6
    scale_up_factor_max: float = 100_000.0
    parallelism_min: int = 1
    parallelism_max: int = 200
    excluded: frozenset[str] = frozenset()
    """Ids, names or uids of operators that are left alone."""
    catch_up_ms: int = 1_800_000
    restart_ms: int = 10_000
    backlog_ms: int = 300_000
    detects_ineffective: bool = False
    effect_min: float = 0.1
    say_again_ms: int = 1_800_000
    aggregator: MetricAggregator = MetricAggregator.MAX
    adjust_mode: KeyGroupOrPartitionsAdjustMode = KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD

    @property
    def sample_every_ms(self) -> int:
        """How often the counters are noted."""
        return max(1, self.window_ms // _SAMPLES_IN_WINDOW)

    @staticmethod
    def of(configuration: Configuration) -> AutoscalerSettings | None:
        """The settings that a configuration holds; None: the job has no autoscaler.

        Raises ConfigurationError for values that contradict each other.
        """
        get = configuration.get
        if not get(options.ENABLED):
            return None
        target, boundary = get(options.UTILIZATION_TARGET), get(options.UTILIZATION_BOUNDARY)
        excluded = get(options.VERTEX_EXCLUDE_IDS)
        most, least = get(options.UTILIZATION_MAX), get(options.UTILIZATION_MIN)
        settings = AutoscalerSettings(
            get(options.SCALING_ENABLED),
            get(options.STABILIZATION_INTERVAL),
            get(options.METRICS_WINDOW),
            target,
            min(round(target + boundary, _DIGITS), 1.0) if most is None else most,
            max(round(target - boundary, _DIGITS), 0.0) if least is None else least,
            get(options.SCALE_DOWN_INTERVAL),
            get(options.MAX_SCALE_DOWN_FACTOR),
            get(options.MAX_SCALE_UP_FACTOR),
            get(options.VERTEX_MIN_PARALLELISM),
            get(options.VERTEX_MAX_PARALLELISM),
            frozenset(excluded),
            get(options.CATCH_UP_DURATION),
            get(options.RESTART_TIME),
            get(options.BACKLOG_LAG_THRESHOLD),
            get(options.EFFECTIVENESS_DETECTION_ENABLED),
            get(options.EFFECTIVENESS_THRESHOLD),
            get(options.SCALING_EVENT_INTERVAL),
            get(options.BUSY_TIME_AGGREGATOR),
            get(options.KEY_GROUP_ADJUST_MODE),
        )
        settings._check()
        return settings

    def _check(self) -> None:
        if not 0 <= self.utilization_min < self.utilization <= self.utilization_max <= 1 or not self.utilization:
            raise ConfigurationError(
                f"{options.UTILIZATION_TARGET.key} is above 0 and at most 1, between {options.UTILIZATION_MIN.key} and "
                f"{options.UTILIZATION_MAX.key}; got {self.utilization:g}, from {self.utilization_min:g} to "
                f"{self.utilization_max:g}"
            )
        if self.scale_down_factor_max > 1:
            raise ConfigurationError(
                f"{options.MAX_SCALE_DOWN_FACTOR.key} is a part, from 0 to 1; got {self.scale_down_factor_max:g}"
            )
        if self.parallelism_min > self.parallelism_max:
            raise ConfigurationError(
                f"{options.VERTEX_MIN_PARALLELISM.key} ({self.parallelism_min}) is above "
                f"{options.VERTEX_MAX_PARALLELISM.key} ({self.parallelism_max})"
            )
