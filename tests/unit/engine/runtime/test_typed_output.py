"""What an operator emits where its declared type has rows."""

from __future__ import annotations

import pytest

from penstock.api.output_tag import OutputTag
from penstock.common import Row, Types
from penstock.common.errors import UserFunctionError
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.task.wiring import typed_output
from penstock.testing import OperatorHarness

PERSON = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
SIDE = OutputTag("side", PERSON)


@pytest.mark.parametrize("method", ["map", "flat_map"])
def test_rows_have_the_names_of_the_declared_type(method: str) -> None:
    """The next function of a PyFlink program would not find its fields."""
    results = {"map": lambda value: (value, "a"), "flat_map": lambda value: [(value, "a")]}
    with OperatorHarness(lambda stream: getattr(stream, method)(results[method], output_type=PERSON)) as harness:
        harness.push(1, 10)
        assert harness.outputs_with_timestamps() == [(Row(id=1, name="a"), 10)]


def test_an_error_names_the_value_that_does_not_fit() -> None:
    """One record of a million could not be found."""
    with (
        OperatorHarness(lambda stream: stream.map(lambda value: (value,), output_type=PERSON)) as harness,
        pytest.raises(
            UserFunctionError, match=r"declared type\n  value \(7,\)[\s\S]*must have 2 values as RowTypeInfo"
        ),
    ):
        harness.push(7)


class Recorded:
    """An output that keeps what it is given."""

    def __init__(self) -> None:
        self.log: list = []

    def emit(self, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        self.log.append((values, timestamps))
        return True

    def emit_side(self, tag, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        self.log.append((tag.tag_id, values, timestamps))
        return True

    def watermark(self, timestamp):
        self.log.append(timestamp)
        return True

    def status(self, active):
        self.log.append(active)
        return True


def test_side_outputs_have_the_types_of_their_tags() -> None:
    """Fields of late records would have no names."""
    recorded = Recorded()
    output = typed_output(recorded, None, Types.LONG(), [SIDE])  # type: ignore[arg-type]
    output.emit_side(SIDE, Rows([(1, "a")], [10]))
    output.emit(Rows([1]))
    output.watermark(20)
    output.status(False)
    assert recorded.log == [("side", [Row(id=1, name="a")], [10]), ([1], None), 20, False]


def test_an_output_without_rows_is_not_wrapped() -> None:
    """Streams without types would pay for those that have them."""
    sink = Recorded()
    assert typed_output(sink, None, Types.TUPLE([Types.LONG()]), [OutputTag("plain")]) is sink  # type: ignore[arg-type]


def test_the_plan_gives_operators_their_types() -> None:
    """Types would be known to the program and not to its tasks."""
    env = StreamExecutionEnvironment()
    env.from_collection([1]).map(lambda value: (value, "a"), output_type=PERSON).print()
    (level,) = JobGraph("job", StreamGraph(env._sinks, GraphSettings()), STREAMING).levels("job")
    nodes = level.vertices[0].nodes
    assert [node.output_type for node in nodes] == [None, PERSON, None]
