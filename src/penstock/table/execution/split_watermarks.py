"""How the splits of a source give watermarks, by what the planner has pushed into it and the options of the table."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.common.time import Duration
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.table.execution.column_source import SplitWatermarks
from penstock.table.execution.durations import milliseconds
from penstock.table.execution.translation import Translation
from penstock.table.operators.sources.scan import Path
from penstock.table.planner.nodes.tables import WatermarkPushDown


def idle_timeout_ms(watermark: WatermarkPushDown) -> int | None:
    """Return after how long without a row a source is idle: by the option of the table, or that of the session."""
    of_table = int((watermark.watermark_params or {}).get("sourceIdleTimeout") or 0)
    found = of_table if of_table > 0 else watermark.idle_timeout_millis
    return found if found > 0 else None


def is_on_event(watermark: WatermarkPushDown) -> bool:
    """Return whether each row emits its watermark, and not only the interval: `scan.watermark.emit.strategy`."""
    return (watermark.watermark_params or {}).get("emitStrategy") == "ON_EVENT"


def split_watermarks(translation: Translation, watermark: WatermarkPushDown, paths: Sequence[Path]) -> SplitWatermarks:
    """Return the watermarks of splits. `paths`: the columns over which the expression is."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if (idle_ms := idle_timeout_ms(watermark)) is not None:
        strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
    parameters = watermark.watermark_params or {}
    if (group := parameters.get("alignGroupName")) is not None and (drift := parameters.get("alignMaxDrift")):
        interval = parameters.get("alignUpdateInterval")
        strategy = strategy.with_watermark_alignment(
            group, _duration(drift), None if interval is None else _duration(interval)
        )
    return SplitWatermarks(
        strategy,
        translation.watermark_interval_ms,
        translation.expressions(watermark.watermark_expr),
        paths,
        with_each_chunk=is_on_event(watermark),
    )


def _duration(text: str) -> Duration:
    return Duration.of_millis(milliseconds(text))
