"""The options of worker processes, by Flink's names. Source: Flink docs, "Configuration", taskmanager."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

TASK_SLOTS = (
    ConfigOptions.key("taskmanager.numberOfTaskSlots")
    .int_type(least=1)
    .no_default_value()
    .with_description(
        "How many slots of a level share a worker process in streaming mode. By default a slot has a process of its "
        "own; on a local master with more slots than 16, or cores, per level, the slots share that many processes."
    )
)
