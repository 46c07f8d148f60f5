"""A user's function or object as a sink."""

import pytest

from penstock.connectors.base.function_sink import FunctionSink
from penstock.testing.conformance.sink import SimpleSinkContext


class Legacy:
    def __init__(self):
        self.calls = []

    def open(self, context):
        self.calls.append(("open", context.subtask))

    def invoke(self, value, context):
        self.calls.append((value, context.timestamp(), context.current_watermark(), context.current_processing_time()))

    def close(self):
        self.calls.append("close")


class WithoutContext:
    def __init__(self):
        self.seen = []

    def invoke(self, value):
        self.seen.append(value)


def test_an_object_lives_as_a_flink_sink_function_does():
    """It would write before `open`, or never close its connection."""
    legacy = Legacy()
    context = SimpleSinkContext(subtask=2, clock_ms=9)
    context.watermark = 4
    writer = FunctionSink(legacy).create_writer(context)
    writer.write_chunk(["a"], [1])
    writer.write_chunk(["b"], None)
    assert writer.prepare_commit() == []
    writer.close()
    assert legacy.calls == [("open", 2), ("a", 1, 4, 9), ("b", None, 4, 9), "close"]


def test_the_context_may_be_left_out():
    """Sink functions that need only the value would have to declare a context."""
    sink = WithoutContext()
    FunctionSink(sink).create_writer(SimpleSinkContext()).write_chunk([1, 2], None)
    assert sink.seen == [1, 2]


def test_a_plain_callable_will_do():
    """`add_sink(results.append)`, the shortest sink, would not work."""
    results = []
    FunctionSink(results.append).create_writer(SimpleSinkContext()).write_chunk([1, 2], [5, 6])
    assert results == [1, 2]


def test_anything_else_is_refused():
    """Any other object would fail on the first record."""
    with pytest.raises(TypeError, match="callable or have a method invoke"):
        FunctionSink("print")
