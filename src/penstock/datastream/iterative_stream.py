"""IterativeStream: a stream to which what becomes of it is fed back. Created by `DataStream.iterate`.

Source: Flink docs, "Operators", Iterate; Flink's IterativeStream.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.connected_streams import ConnectedStreams
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.engine.plan.transformations import FeedbackTransformation, Transformation
from penstock.engine.runtime.operators.iteration import IterationHead

T = TypeVar("T")
F = TypeVar("F")


class IterativeStream(DataStream[T]):
    """The head of an iteration: all of its input, and all that is fed back. It ends with the job's input.

    A record that is fed back keeps its timestamp, and holds back no watermark: it may be late in the loop. The loop
    ends when its inputs have ended and nothing is in flight in it any more. A timer in processing time that has not
    fired yet is not in flight.
    """

    def __init__(self, stream: DataStream[T], max_wait_time: TimeLength) -> None:
        max_wait_ms = to_milliseconds(max_wait_time)
        if max_wait_ms < 0:
            raise ValueError(f"max_wait_time can't be negative, got {max_wait_ms} ms")
        environment = stream.environment
        self._stream = stream
        self._max_wait_ms = max_wait_ms
        head = IterationHead("Iterate", max_wait_ms)
        self._head = FeedbackTransformation(environment.next_id(), head.name, stream._transformation, head)
        super().__init__(environment, self._head)

    def close_with(self, feedback_stream: DataStream[T]) -> DataStream[T]:
        """Feed a stream back to this one, and return it. It is partitioned as it is, else as this stream's input.

        May be called several times. Raises ValueError for a stream that does not come from this iteration; ProgramError
        at submission if one that is not partitioned has another parallelism than this stream.
        """
        if not isinstance(feedback_stream, DataStream):
            raise TypeError(f"close_with takes a stream, got {feedback_stream!r}")
        check_one_environment("close_with", self, feedback_stream)
        if not _comes_from(feedback_stream._transformation, self._head):
            raise ValueError(
                "what is fed back must come from the iteration: call close_with with a stream that was made from the "
                "one which iterate() has returned"
            )
        self._head.feedback.append(feedback_stream._transformation)
        return feedback_stream

    def with_feedback_type(self, feedback_type: TypeInformation | None = None) -> ConnectedIterativeStreams[T, Any]:
        """Keep the input and what is fed back apart: two connected streams, for feedback of another type.

        It takes the place of this stream, which is not to be closed. In Java: `IterativeStream.withFeedbackType`.
        """
        return ConnectedIterativeStreams(self._stream, self._max_wait_ms, feedback_type)


class ConnectedIterativeStreams(ConnectedStreams[T, F], Generic[T, F]):
    """A stream, and what is fed back to it by `close_with`, as the second one. The loop ends as that of `iterate`.

    Source: Flink's IterativeStream.ConnectedIterativeStreams.
    """

    def __init__(self, stream: DataStream[T], max_wait_ms: int, feedback_type: TypeInformation | None) -> None:
        # The head reads no record of the input, but its event time and its end, with which the loop may end.
        self._iteration: IterativeStream[Any] = IterativeStream(stream.filter(_none), max_wait_ms)
        self._iteration._head.output_type = feedback_type
        super().__init__(stream, self._iteration)

    def close_with(self, feedback_stream: DataStream[F]) -> DataStream[F]:
        """Feed a stream back as the second one, and return it: see `IterativeStream.close_with`."""
        return self._iteration.close_with(feedback_stream)


def _none(value: Any) -> bool:
    return False


def _comes_from(transformation: Transformation, head: Transformation) -> bool:
    seen: set[int] = set()
    waiting = [transformation]
    while waiting:
        one = waiting.pop()
        if one is head:
            return True
        if one.id not in seen:
            seen.add(one.id)
            waiting.extend(one.inputs)
    return False
