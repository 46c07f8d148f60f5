"""The metrics that each operator has, whatever its function registers."""

from typing import Final

OPERATOR_METRICS: Final = {
    "numRecordsIn": ("records_in", "Records received by the operator."),
    "numRecordsOut": ("records_out", "Records that it has emitted, side outputs included."),
    "numLateRecordsDropped": ("late_records_dropped", "Records that were late for all of their windows, and dropped."),
    "currentInputWatermark": ("watermark", "The lowest watermark of its subtasks (ms); before the first one -2**63."),
    "currentOutputWatermark": ("output_watermark", "The same of those that they have emitted."),
}
"""By Flink's name: the field of the job master's OperatorMetrics, and what it says. Users' own come in addition."""
