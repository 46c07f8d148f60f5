"""Which windows of rows with declared fields the plan lets run on columns, and what it says about the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.users_aggregates import WeightedMean

from penstock.common import Configuration, Time, Types
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import (
    CountTrigger,
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.exact_conversion import ToExactColumnsOperator
from penstock.engine.runtime.columns.mixed_windows import MixedWindowOperator
from penstock.engine.runtime.execution_mode import BATCH, STREAMING, ExecutionMode
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.service.client.plan_executor import PlanExecutor

NAMES = ["key", "n", "f", "share", "text", "day"]
KINDS = [Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.FLOAT(), Types.STRING(), Types.SQL_DATE()]
READING = Types.ROW_NAMED(NAMES, KINDS)
TUMBLING = TumblingEventTimeWindows.of(Time.seconds(1))
SLIDING = SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))
CUMULATIVE = CumulativeEventTimeWindows.of(Time.seconds(2), Time.seconds(1))
COUNT = {"count": "count"}
Program = Callable[[Any], Any]


def planned(program: Program, mode: ExecutionMode = STREAMING, settings: dict[str, str] | None = None) -> JobGraph:
    """Return the plan of a program of a stream of rows."""
    executor = PlanExecutor()
    configuration = Configuration()
    for name, value in (settings or {}).items():
        configuration.set_string(name, value)
    env = StreamExecutionEnvironment(configuration, executor=executor)
    env.set_parallelism(2)
    record = Row(key="a", n=1, f=0.5, share=0.5, text="t", day=None)
    program(env.from_collection([record], READING).uid("source")).uid("windows").print()
    env.execute("job")
    (graph,) = executor.graphs
    return JobGraph("job", graph.stream_graph, mode)


def windows(aggregates: Any = COUNT, assigner: Any = TUMBLING, key: str = "key") -> Program:
    """Return a program of windows."""
    return lambda stream: stream.key_by(key).window(assigner).aggregate(aggregates)


def operator_of(graph: JobGraph) -> Operator:
    """Return the operator of the windows."""
    (node,) = (node for vertex in graph.vertices for node in vertex.nodes if node.uid == "windows")
    return node.operator


def choice_of(graph: JobGraph) -> str:
    """Return what the plan says about the windows."""
    (text,) = (change.text for change in graph.changes if " runs on " in change.text)
    return text.split(" runs on ")[1]


@pytest.mark.parametrize(
    ("aggregates", "key", "carried"),
    [
        ({"total": ("n", "sum"), "count": "count"}, "key", ("key", "n")),
        ({"total": ("f", "sum"), "texts": ("text", "count")}, "n", ("n", "f", "text")),
        ({"start": "window_start"}, "text", ("text",)),
    ],
)
@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING])
def test_fields_with_declared_types_are_columns(assigner: Any, aggregates: Any, key: str, carried: Any) -> None:
    """Windows would take four times as long, or send fields that no one reads."""
    graph = planned(windows(aggregates, assigner, key), settings={"penstock.columns.local-aggregation": "false"})
    assert isinstance(operator_of(graph), MixedWindowOperator)
    assert choice_of(graph) == "columns: its fields have declared types"
    assert "Operator" not in " ".join(change.text for change in graph.changes), "a name of ours"
    source, target = graph.vertices
    assert [node.uid for node in source.nodes] == ["source", "source/to-columns/windows"]
    assert isinstance(source.nodes[1].operator, ToExactColumnsOperator)
    (info,) = [info for vertex in graph.levels("0" * 32)[0].vertices for info, _ in vertex.outputs]
    assert (info.kind, info.key_fields, info.mixes_rows) == (ChunkKind.COLUMNS, (key,), True)
    (edge,) = graph.edges
    assert edge.stream_edge.columns is not None and edge.stream_edge.columns.names == carried
    # What is behind the windows gets rows, as before.
    assert target.nodes[0].operator.gives is ChunkKind.ROWS and target.operators[1] == "Print to Std. Out"


@pytest.mark.parametrize(
    ("assigner", "aggregates", "carried"),
    [
        (TUMBLING, {"total": ("n", "sum"), "count": "count"}, ("key", "#0", "#1", "#records")),
        (TUMBLING, {"least": ("f", "min")}, ("key", "#0", "#records")),
        (CUMULATIVE, COUNT, ("key", "#0", "#records")),
        (TUMBLING, {"total": ("f", "sum")}, None),
        (TUMBLING, {"mean": ("n", "avg")}, None),
        (SLIDING, COUNT, None),
    ],
)
def test_records_are_aggregated_before_the_exchange(assigner: Any, aggregates: Any, carried: Any) -> None:
    """Each record would be sent, or a sum of floats be another one."""
    graph = planned(windows(aggregates, assigner))
    names = [node.name for node in graph.vertices[0].nodes]
    assert names == ["Collection Source", "To Columns", *(["Local Window Aggregate"] if carried else [])]
    (edge,) = graph.edges
    assert edge.stream_edge.columns is not None
    assert carried is None or edge.stream_edge.columns.names == carried
    (info,) = [info for vertex in graph.levels("0" * 32)[0].vertices for info, _ in vertex.outputs]
    assert (info.kind, info.mixes_rows) == (ChunkKind.COLUMNS, True)


@pytest.mark.parametrize(
    "program",
    [
        lambda windows: windows.allowed_lateness(5).aggregate(COUNT),
        lambda windows: windows.side_output_late_data(LATE).aggregate(COUNT),
    ],
)
def test_late_records_come_one_by_one(program: Program) -> None:
    """A partial aggregate would come out of the side output, or a window fire once for several records."""

    def declared(stream: Any) -> Any:
        stream = stream.map(lambda row: row, Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()]))
        return program(stream.key_by("key").window(TUMBLING))

    graph = planned(declared)
    assert isinstance(operator_of(graph), MixedWindowOperator)
    assert "Local Window Aggregate" not in [node.name for vertex in graph.vertices for node in vertex.nodes]


LATE = OutputTag[Any]("late")
ROWS: dict[str, tuple[Program, str]] = {
    "key": (windows(key="f"), "the field 'f' of the key has the type"),
    "field": (windows({"x": ("share", "max")}), "the field 'share' has the type"),
    "text": (windows({"x": ("text", "max")}), "the field 'text' has the type"),
    "day": (windows({"x": ("day", "count")}), "the field 'day' has the type"),
    "sessions": (
        windows(assigner=EventTimeSessionWindows.with_gap(Time.seconds(1))),
        "only tumbling, sliding and cumulative",
    ),
    "trigger": (
        lambda stream: stream.key_by("key").window(TUMBLING).trigger(CountTrigger.of(2)).aggregate(COUNT),
        "only tumbling, sliding and cumulative",
    ),
    "users": (
        windows({"x": (("f", "f2"), WeightedMean())} if False else {"x": (("f", "n"), WeightedMean())}),
        "'x' is",
    ),
    "late": (
        lambda stream: stream.key_by("key").window(TUMBLING).side_output_late_data(LATE).aggregate(COUNT),
        "late records have the field 'share'",
    ),
    "types": (
        lambda stream: stream.map(lambda row: row).key_by("key").window(TUMBLING).aggregate(COUNT),
        "the fields of its records have no declared types",
    ),
    "all": (lambda stream: stream.window_all(TUMBLING).aggregate(COUNT), "do not come over an exchange by fields"),
    "columns": (
        lambda stream: stream.union(stream.as_columns()).key_by("key").window(TUMBLING).aggregate(COUNT),
        "some of its streams have columns",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_other_windows_stay_on_rows(name: str) -> None:
    """Results would be others, and no one would see why a job is slow."""
    program, reason = ROWS[name]
    graph = planned(program)
    choice = choice_of(graph)
    assert choice.startswith("rows: ") and reason in choice
    assert not isinstance(operator_of(graph), MixedWindowOperator)


def test_one_option_turns_it_off() -> None:
    """A fault of columns would need another program."""
    graph = planned(windows(), settings={"penstock.columns.automatic": "false"})
    assert type(operator_of(graph)) is SlicedWindowOperator
    assert choice_of(graph) == "rows: penstock.columns.automatic is false"
    assert [node.name for node in graph.vertices[0].nodes] == ["Collection Source"]


def test_batches_stay_on_rows() -> None:
    """A batched task sorts rows by key, which columns have no place for."""
    graph = planned(windows(), BATCH)
    assert type(operator_of(graph)) is SlicedWindowOperator and not graph.changes


@pytest.mark.parametrize("chaining", ["true", "false"])
def test_the_conversion_is_in_the_task_of_its_records(chaining: str) -> None:
    """Rows would be sent to another task, to be converted there."""

    def program(stream: Any) -> Any:
        mapped = stream.map(lambda row: row, READING).uid("map").disable_chaining()
        return windows()(mapped)

    graph = planned(program, settings={"pipeline.operator-chaining.enabled": chaining})
    uids = [[node.uid for node in vertex.nodes] for vertex in graph.vertices]
    assert ["map", "map/to-columns/windows", "map/to-columns/windows/local/windows"] in uids and ["source"] in uids


def test_a_stream_twice_is_converted_once() -> None:
    """Two operators would have one uid."""
    graph = planned(lambda stream: windows()(stream.union(stream)))
    names = [node.name for node in graph.vertices[0].nodes]
    assert names == ["Collection Source", "To Columns", "Local Window Aggregate"]
    assert len(graph.edges) == 2
