"""The built-in metrics of operators."""

from typing import Final

OPERATOR_METRICS: Final = {
    "numRecordsIn": ("records_in", "Records received by the operator."),
    "numRecordsOut": ("records_out", "Records emitted by the operator, side outputs included."),
    "numLateRecordsDropped": (
        "late_records_dropped",
        "Records that were dropped as late for all of their windows.",
    ),
    "currentInputWatermark": (
        "watermark",
        "The lowest watermark received by its subtasks (ms); at first -2**63.",
    ),
    "currentOutputWatermark": ("output_watermark", "The lowest watermark emitted by its subtasks (ms)."),
}
"""Flink's name -> field of the JobMaster's OperatorMetrics, and description. Functions may register further ones."""
