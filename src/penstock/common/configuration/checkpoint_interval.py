"""How often a job takes checkpoints by itself: the one place that says when it does not."""

from __future__ import annotations

from penstock.common.configuration import Configuration, options


def checkpoint_interval_ms(configuration: Configuration) -> int | None:
    """Milliseconds from the start of one checkpoint to the start of the next. None: no checkpoints.

    An interval of 0 is none, as in Flink: CheckpointConfig.isCheckpointingEnabled.
    """
    return configuration.get(options.CHECKPOINT_INTERVAL) or None
