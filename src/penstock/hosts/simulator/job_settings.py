"""The settings of a simulated job, and its restart strategy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from penstock.common.configuration.choices import (
    ExternalizedCheckpointRetention,
    FailoverStrategy,
    KeyGroupOrPartitionsAdjustMode,
)
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.jobmaster.restarts import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from penstock.engine.jobmaster.settings import JobSettings, SlotFollowingSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator.circumstances import Circumstances

# The autoscaler of simulated jobs.

WINDOW_MS = 3_000
_PARALLELISM_MAX = 4


def autoscaler_of(graph: JobGraph) -> AutoscalerSettings:
    """Return an autoscaler that decides early. It excludes vertices whose rescaling changes the output: see runs.py."""
    broadcasts = any(edge.partitioner == "BROADCAST" for edge in graph.edges)
    alone = [vertex.name for vertex in graph.vertices if broadcasts or vertex.is_source or vertex.parallelism == 1]
    return AutoscalerSettings(
        stabilization_ms=0,
        window_ms=WINDOW_MS,
        scale_down_interval_ms=0,
        scale_down_factor_max=1.0,
        parallelism_max=_PARALLELISM_MAX,
        excluded=frozenset(alone),
        adjust_mode=KeyGroupOrPartitionsAdjustMode.MAXIMIZE_UTILISATION,
    )


HEALED_TIMEOUT_MS = 60_000


class WatchedRestarts(RestartStrategy):
    """A restart strategy that records its latest decision."""

    def __init__(self, strategy: RestartStrategy) -> None:
        self.refused = False
        """Whether it refused the latest restart."""
        self._strategy = strategy

    def delay_ms(self, now_ms: int) -> int | None:
        """Return the delay of the strategy, and record whether it refuses."""
        delay_ms = self._strategy.delay_ms(now_ms)
        self.refused = delay_ms is None
        return delay_ms


def settings_of(circumstances: Circumstances, healed: bool, graph: JobGraph) -> JobSettings:
    """Return the settings of a simulated job. A job that follows slots has no autoscaler."""
    loads, slots = circumstances.load_changes_at_steps, circumstances.slots_change_at_steps
    checkpoints = CheckpointSettings(
        circumstances.checkpoint_interval_ms if circumstances.has_interval else None,
        HEALED_TIMEOUT_MS if healed else circumstances.checkpoint_timeout_ms,
        circumstances.pause_ms,
        circumstances.concurrent_max,
        failures_tolerated=1_000_000,
        retained=circumstances.retained,
        has_directory=circumstances.has_directory and circumstances.checkpointing,
    )
    return JobSettings(
        checkpoints,
        # A user who cancels a job to start it again retains checkpoints; a job that fails retains them anyway.
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
        if circumstances.rescale_rate
        else ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        failover_strategy=FailoverStrategy.FULL if circumstances.full_failover else FailoverStrategy.REGION,
        allow_duplicates=not circumstances.exactly_once,
        autoscaler=autoscaler_of(graph) if loads and not slots else None,
        slot_following=_slot_following() if slots else None,
    )


def _slot_following() -> SlotFollowingSettings:
    # The same timeout as other jobs, because a run has to end.
    wait_ms = JobSettings().slot_request_timeout_ms
    return SlotFollowingSettings(
        False, stabilization_ms=2_000, cooldown_ms=1_000, growth_stabilization_ms=2_000, wait_ms=wait_ms
    )


def restarts_of(circumstances: Circumstances, random: Random, healed: bool) -> RestartStrategy:
    """Return a restart strategy. Each limits restarts, so that a program that always fails terminates."""
    if not circumstances.checkpointing:
        return NoRestart()
    strategies: list[Callable[[], RestartStrategy]] = [
        partial(FixedDelay, 3, 100),
        partial(FailureRate, 2, 10_000_000, 10),
        # A long reset time: attempts that run longer would reset the delay each time.
        partial(
            ExponentialDelay,
            initial_ms=50,
            max_ms=10_000,
            multiplier=2.0,
            reset_ms=10_000_000,
            attempts=4,
            jitter=0.1,
            chance=random.random,
        ),
    ]
    return strategies[circumstances.restart_strategy]() if not healed else FixedDelay(2, 10)
