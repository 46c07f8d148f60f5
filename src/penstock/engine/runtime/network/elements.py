"""What travels in band beside the records, in order with those of its channel."""

from __future__ import annotations

import msgspec

from penstock.common.stored import stored_as
from penstock.engine.runtime.checkpoint_options import CheckpointOptions


class Element(msgspec.Struct, frozen=True, gc=False):
    """Base of everything in band that is not a record."""


@stored_as("watermark")
class Watermark(Element, frozen=True, gc=False):
    """No record with a timestamp (ms) of `timestamp` or less is to be expected any more on this channel."""

    timestamp: int


@stored_as("watermark-status")
class WatermarkStatus(Element, frozen=True, gc=False):
    """Whether the channel takes part in event time: an idle one no longer holds back the watermark."""

    active: bool


@stored_as("barrier")
class CheckpointBarrier(Element, frozen=True, gc=False):
    """Separates what belongs to checkpoint `checkpoint_id` from what comes after it."""

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()


@stored_as("end-of-data")
class EndOfData(Element, frozen=True, gc=False):
    """No more records come, barriers still may. `drain`: event time goes to its end and all timers fire."""

    drain: bool = True


@stored_as("end-of-input")
class EndOfInput(Element, frozen=True, gc=False):
    """Nothing more comes on this channel at all."""


@stored_as("latency-marker")
class LatencyMarker(Element, frozen=True, gc=False):
    """Sent by a source at `marked_ms` (processing time): how long it takes to arrive is the latency so far."""

    marked_ms: int
    vertex: int
    subtask: int
