"""Read the autoscaler's settings from a configuration. Times are in milliseconds."""

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
    """Settings of the autoscaler. Defaults are those of the options."""

    is_scaling: bool = True
    """Whether decisions are carried out, not only logged."""
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
    """Ids, names or uids of operators whose parallelism does not change."""
    catch_up_ms: int = 1_800_000
    restart_ms: int = 10_000
    backlog_ms: int = 300_000
    detects_ineffective: bool = False
    effect_min: float = 0.1
    event_interval_ms: int = 1_800_000
    aggregator: MetricAggregator = MetricAggregator.MAX
    adjust_mode: KeyGroupOrPartitionsAdjustMode = KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD

    @property
    def sample_every_ms(self) -> int:
        """Interval between samples of the counters."""
        return max(1, self.window_ms // _SAMPLES_IN_WINDOW)

    @staticmethod
    def of(configuration: Configuration) -> AutoscalerSettings | None:
        """Return the settings of a configuration, or None if the job has no autoscaler.

        Raises ConfigurationError for contradictory values.
        """
        get = configuration.get
        if not get(options.ENABLED):
            return None
        target, boundary = get(options.UTILIZATION_TARGET), get(options.UTILIZATION_BOUNDARY)
        excluded = get(options.VERTEX_EXCLUDE_IDS)
        most, least = get(options.UTILIZATION_MAX), get(options.UTILIZATION_MIN)
        settings = AutoscalerSettings(
            is_scaling=get(options.SCALING_ENABLED),
            stabilization_ms=get(options.STABILIZATION_INTERVAL),
            window_ms=get(options.METRICS_WINDOW),
            utilization=target,
            utilization_max=min(round(target + boundary, _DIGITS), 1.0) if most is None else most,
            utilization_min=max(round(target - boundary, _DIGITS), 0.0) if least is None else least,
            scale_down_interval_ms=get(options.SCALE_DOWN_INTERVAL),
            scale_down_factor_max=get(options.MAX_SCALE_DOWN_FACTOR),
            scale_up_factor_max=get(options.MAX_SCALE_UP_FACTOR),
            parallelism_min=get(options.VERTEX_MIN_PARALLELISM),
            parallelism_max=get(options.VERTEX_MAX_PARALLELISM),
            excluded=frozenset(excluded),
            catch_up_ms=get(options.CATCH_UP_DURATION),
            restart_ms=get(options.RESTART_TIME),
            backlog_ms=get(options.BACKLOG_LAG_THRESHOLD),
            detects_ineffective=get(options.EFFECTIVENESS_DETECTION_ENABLED),
            effect_min=get(options.EFFECTIVENESS_THRESHOLD),
            event_interval_ms=get(options.SCALING_EVENT_INTERVAL),
            aggregator=get(options.BUSY_TIME_AGGREGATOR),
            adjust_mode=get(options.KEY_GROUP_ADJUST_MODE),
        )
        settings._check()
        return settings

    def _check(self) -> None:
        if not 0 <= self.utilization_min < self.utilization <= self.utilization_max <= 1 or not self.utilization:
            raise ConfigurationError(
                f"{options.UTILIZATION_TARGET.key} must be above 0 and at most 1, and between "
                f"{options.UTILIZATION_MIN.key} ({self.utilization_min:g}) and {options.UTILIZATION_MAX.key} "
                f"({self.utilization_max:g}), got {self.utilization:g}"
            )
        if self.scale_down_factor_max > 1:
            raise ConfigurationError(
                f"{options.MAX_SCALE_DOWN_FACTOR.key} must be from 0 to 1, got {self.scale_down_factor_max:g}"
            )
        if self.parallelism_min > self.parallelism_max:
            raise ConfigurationError(
                f"{options.VERTEX_MIN_PARALLELISM.key} ({self.parallelism_min}) must not be above "
                f"{options.VERTEX_MAX_PARALLELISM.key} ({self.parallelism_max})"
            )
