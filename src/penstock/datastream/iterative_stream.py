"""IterativeStream: a stream to which results are fed back. Created by `DataStream.iterate`.

Source: Flink docs, "Operators", Iterate; Flink's IterativeStream.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.connected_streams import ConnectedStreams
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.engine.plan.transformations import FeedbackTransformation
from penstock.engine.plan.upstream import comes_from
from penstock.engine.runtime.operators.iteration import IterationHead

T = TypeVar("T")
F = TypeVar("F")


class IterativeStream(DataStream[T]):
    """The head of an iteration. It emits its input and the records that are fed back.

    A record that is fed back keeps its timestamp but does not hold back watermarks, so it may be late in the loop. The
    loop ends when its inputs have ended and no record is in flight in it. Processing-time timers that have not fired
    yet do not count as in flight.
    """

    def __init__(self, stream: DataStream[T], max_wait_time: TimeLength) -> None:
        max_wait_ms = to_milliseconds(max_wait_time)
        if max_wait_ms < 0:
            raise ValueError(f"max_wait_time must be 0 ms or more, got {max_wait_ms} ms")
        environment = stream.environment
        self._stream = stream
        self._max_wait_ms = max_wait_ms
        head = IterationHead("Iterate", max_wait_ms)
        self._head = FeedbackTransformation(environment.next_id(), head.name, stream._transformation, head)
        super().__init__(environment, self._head)

    def close_with(self, feedback_stream: DataStream[T]) -> DataStream[T]:
        """Feed a stream back to this one, and return it.

        The feedback keeps its partitioning, or has that of this stream's input. Several calls feed several streams
        back. Raises ValueError if the stream does not come from this iteration, and at submission ProgramError if a
        stream without partitioning has another parallelism than this one.
        """
        if not isinstance(feedback_stream, DataStream):
            raise TypeError(f"expected a stream for close_with, got {feedback_stream!r}")
        check_one_environment("close_with", self, feedback_stream)
        if not comes_from(feedback_stream._transformation, self._head):
            raise ValueError(
                "the feedback must come from the iteration: call close_with with a stream derived from the result of "
                "iterate()"
            )
        self._head.feedback.append(feedback_stream._transformation)
        return feedback_stream

    def with_feedback_type(self, feedback_type: TypeInformation | None = None) -> ConnectedIterativeStreams[T, Any]:
        """Return input and feedback as two connected streams, for feedback of another type.

        Use the result in place of this stream, and call its `close_with`. In Java: `IterativeStream.withFeedbackType`.
        """
        return ConnectedIterativeStreams(self._stream, self._max_wait_ms, feedback_type)


class ConnectedIterativeStreams(ConnectedStreams[T, F], Generic[T, F]):
    """A stream and, as the second one, the feedback of `close_with`. The loop ends like that of `iterate`.

    Source: Flink's IterativeStream.ConnectedIterativeStreams.
    """

    def __init__(self, stream: DataStream[T], max_wait_ms: int, feedback_type: TypeInformation | None) -> None:
        # The head needs only the event time and the end of the input, which may end the loop, but not its records.
        self._iteration: IterativeStream[Any] = IterativeStream(stream.filter(nothing), max_wait_ms)
        self._iteration._head.output_type = feedback_type
        super().__init__(stream, self._iteration)

    def close_with(self, feedback_stream: DataStream[F]) -> DataStream[F]:
        """Feed a stream back as the second stream, and return it: see `IterativeStream.close_with`."""
        return self._iteration.close_with(feedback_stream)


def nothing(record: Any) -> bool:
    """Return False: a filter that no record passes."""
    return False
