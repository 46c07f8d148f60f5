"""Builds the job graph of a program given as data, with the calls of the DataStream API that a user would write."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.api.source import Boundedness, Source
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.time import Time
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.hybrid.source import HybridSource
from penstock.datastream.async_data_stream import AsyncDataStream
from penstock.datastream.functions import AsyncRetryStrategy
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.datastream.window import (
    CumulativeEventTimeWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.transformations import DeployedTransformation
from penstock.hosts.simulator import functions
from penstock.hosts.simulator.changing import EmitAndChange, EmitAndChangeLater, ReadAndChange
from penstock.hosts.simulator.cutting import CutOperator
from penstock.hosts.simulator.functions import key_of
from penstock.hosts.simulator.loops import TURNS, build_loop
from penstock.hosts.simulator.programs import Node, Program, SplitScript
from penstock.hosts.simulator.sinks import RecordingSink
from penstock.hosts.simulator.sources import ScriptedSource
from penstock.service.client.plan_executor import PlanExecutor


@dataclasses.dataclass(frozen=True)
class Built:
    """A job graph, and the program's sink node of each sink id."""

    graph: JobGraph
    sinks: dict[int, int]


def build(program: Program) -> Built:
    """Build the job graph of a program."""
    executor = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=executor)
    environment.set_runtime_mode(RuntimeExecutionMode.BATCH if program.batched else RuntimeExecutionMode.STREAMING)
    environment.set_buffer_timeout(program.buffer_timeout_ms)
    environment.get_config().set_auto_watermark_interval(program.watermark_interval_ms)
    if program.max_parallelism is not None:
        environment.set_max_parallelism(program.max_parallelism)
    if not program.chaining:
        environment.disable_operator_chaining()
    streams: dict[int, Any] = {}
    sinks: dict[int, int] = {}
    for node in program.nodes:
        stream = _KINDS[node.kind](environment, node, [streams[id] for id in _inputs_of(node, program)])
        streams[node.id] = stream
        if node.kind not in ("partition", "union", "key_by", "side", "late", "loop", "turns"):
            _settle(stream, node)
        if node.kind in ("collect", "write"):
            sinks[stream._transformation.id] = node.id
    environment.execute("simulated")
    return Built(executor.graphs[0], sinks)


def _inputs_of(node: Node, program: Program) -> list[int]:
    """Return the inputs of a node; if it repartitions or broadcasts a keyed stream, the stream before `key_by`."""
    inputs = list(node.inputs)
    nodes = {other.id: other for other in program.nodes}
    repartitioned = {"partition": 0, "rules": 1}.get(node.kind)
    if repartitioned is not None:
        while nodes[inputs[repartitioned]].kind == "key_by":
            inputs[repartitioned] = nodes[inputs[repartitioned]].inputs[0]
    return inputs


def _settle(stream: Any, node: Node) -> None:
    stream.name(f"n{node.id}").set_parallelism(node.parallelism)
    if "max_parallelism" in node.settings:
        stream.set_max_parallelism(node.settings["max_parallelism"])
    chaining = node.settings.get("chaining")
    if chaining == "never":
        stream.disable_chaining()
    elif chaining == "head" and node.kind not in ("collect", "write"):
        stream.start_new_chain()


def strategy_of(settings: dict[str, Any]) -> WatermarkStrategy:
    """Return the watermark strategy described by a node's settings."""
    kind, bound_ms = settings["watermarks"], settings.get("bound_ms", 0)
    if kind == "none":
        strategy = WatermarkStrategy.no_watermarks()
    elif kind == "punctuated":
        strategy = WatermarkStrategy.for_generator(_PunctuatedSupplier(bound_ms))
    else:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Time.milliseconds(bound_ms))
    if settings.get("assigner"):
        strategy = strategy.with_timestamp_assigner(_same_timestamp)
    if settings.get("idle_ms"):
        strategy = strategy.with_idleness(Time.milliseconds(settings["idle_ms"]))
    if settings.get("align"):
        drift_ms, interval_ms = settings["align"]
        drift, interval = Time.milliseconds(drift_ms), Time.milliseconds(interval_ms)
        strategy = strategy.with_watermark_alignment("sources", drift, interval)
    return strategy


class _PunctuatedSupplier:
    def __init__(self, bound_ms: int) -> None:
        self._bound_ms = bound_ms

    def __call__(self) -> functions.Punctuated:
        return functions.Punctuated(self._bound_ms)


def _same_timestamp(value: Any, timestamp: int) -> int:
    return timestamp


def _source(environment: StreamExecutionEnvironment, node: Node, _: list[Any]) -> Any:
    settings = node.settings
    scripts, cut = settings["splits"], settings.get("cut")
    source: Source[Any] = _scripted(scripts[:cut], settings)
    if cut is not None:
        rest = _scripted(scripts[cut:], settings)
        made = HybridSource.builder(source).add_source(lambda context: rest, Boundedness.BOUNDED)
        source = (made if settings["made_at_switch"] else HybridSource.builder(source).add_source(rest)).build()
    return environment.from_source(source, strategy_of(settings), f"n{node.id}")


def _scripted(scripts: Sequence[SplitScript], settings: dict[str, Any]) -> ScriptedSource:
    return ScriptedSource(
        scripts,
        shared=settings.get("shared", False),
        interleaved=settings.get("interleaved", False),
        chunk_records_max=settings.get("chunk", 4),
        timed=settings.get("timed", True),
    )


def _partition(_: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    stream, how = inputs[0], node.settings["how"]
    if how == "custom":
        return stream.partition_custom(functions.PartitionByNumber(), key_of)
    return getattr(stream, how)()


def _reduce(_: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    how = node.settings["how"]
    if node.settings.get("columns"):
        kind = "sum" if how == "reduce" else how
        totals = _flat(node, inputs[0]).key_by("key").aggregate({"number": ("number", kind)})
        return totals.set_parallelism(node.parallelism).map(functions.record_of_aggregate)
    return inputs[0].reduce(functions.Sum()) if how == "reduce" else getattr(inputs[0], how)(3)


def _flat(node: Node, input: Any) -> Any:
    """Return the fields of records as columns, which are cut at any row."""
    flat = input.map(functions.Flat.of).set_parallelism(node.parallelism).as_columns(functions.Flat)
    return _cut(flat.set_parallelism(node.parallelism), node, node.parallelism)


def _declared(node: Node, input: Any) -> Any:
    """Return records as rows whose fields have declared types, which are not those of all values."""
    return input.map(functions.as_declared, functions.CHANGE).set_parallelism(node.parallelism)


def _window(_: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    settings = node.settings
    size, slide = Time.milliseconds(settings["size_ms"]), Time.milliseconds(settings.get("slide_ms", 1))
    assigner: Any
    if settings.get("columns"):
        is_declared = settings["columns"] == "declared"
        flat = _declared(node, inputs[0]) if is_declared else _flat(node, inputs[0])
        growing = settings["windows"] == "cumulative"
        assigner = CumulativeEventTimeWindows.of(size, slide) if growing else TumblingEventTimeWindows.of(size)
        keyed = flat.key_by("key").window(assigner)
        windowed = keyed.allowed_lateness(settings.get("lateness_ms", 0))
        totals = windowed.aggregate({"n": "count", "total": ("number", "sum")}).set_parallelism(node.parallelism)
        return totals.map(functions.record_of_totals)
    if settings["windows"] == "tumbling":
        assigner = TumblingEventTimeWindows.of(size)
    elif settings["windows"] == "sliding":
        assigner = SlidingEventTimeWindows.of(size, slide)
    elif settings["windows"] == "cumulative":
        assigner = CumulativeEventTimeWindows.of(size, slide)
    else:
        assigner = EventTimeSessionWindows.with_gap(size)
    windowed = inputs[0].window(assigner).side_output_late_data(functions.LATE)
    windowed = windowed.allowed_lateness(settings.get("lateness_ms", 0))
    if "evicts" in settings:
        windowed = windowed.evictor(functions.Evicting(settings["evicts"]))
    how = settings["how"]
    if how == "reduce":
        return windowed.reduce(functions.Sum())
    if how == "process":
        return windowed.process(functions.WindowTotal())
    return windowed.aggregate(functions.WindowSum())


def _interval_join(_: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    bounds = node.settings["lower_ms"], node.settings["upper_ms"]
    if "columns" not in node.settings:
        return inputs[0].interval_join(inputs[1]).between(*bounds).process(functions.Pair())
    left, right = (_flat(node, input).key_by("key") for input in inputs)
    pairs = left.interval_join(right).between(*bounds).select(left=["key", "number"], right={"other": "number"})
    return pairs.set_parallelism(node.parallelism).map(functions.record_of_pair)


def _window_join(_: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    first, second = inputs
    streams = first.join(second) if node.settings["how"] == "join" else first.co_group(second)
    assigner = TumblingEventTimeWindows.of(Time.milliseconds(node.settings["size_ms"]))
    windowed = streams.where(key_of).equal_to(key_of).window(assigner)
    return windowed.apply(functions.paired if node.settings["how"] == "join" else functions.co_grouped)


def _add(_: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    """Add to the number, in rows, or in columns between two operators on rows."""
    amount = node.settings["amount"]
    if "columns" not in node.settings:
        return inputs[0].map(functions.Add(amount))
    changes = node.settings["columns"].startswith("changes")
    to_row, kind = (functions.as_change, functions.CHANGE) if changes else (functions.Flat.of, functions.Flat)
    is_keyed = node.settings["columns"].endswith("keyed")
    # So that the exchange of columns has several channels, in which a barrier can overtake them.
    before = inputs[0]._transformation
    several = is_keyed and isinstance(before, DeployedTransformation) and before.parallelism
    senders = several or node.parallelism
    flat = inputs[0].map(to_row).set_parallelism(senders)
    columns = _cut(flat.as_columns(kind).set_parallelism(senders), node, senders)
    if node.settings["columns"] == "exchanged":
        columns = columns.forward()
    if is_keyed:
        columns = columns.key_by("key")
    added = columns.map_batches(functions.AddToColumn(amount)).set_parallelism(node.parallelism)
    if node.settings["columns"] == "unchained":
        added = added.disable_chaining()
    return added.map(partial(functions.of_change, amount) if changes else functions.Flat.record)


def _cut(columns: Any, node: Node, parallelism: int) -> Any:
    """Cut batches at any row, before the next operator on columns."""
    operator = CutOperator(columns._columns(), node.id)
    return columns._operator("Cut", operator, columns._transformation.output_type).set_parallelism(parallelism)


def _add_asynchronously(environment: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    settings = node.settings
    wait = AsyncDataStream.ordered_wait_with_retry if settings["ordered"] else AsyncDataStream.unordered_wait_with_retry
    retries: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(
        3, settings["delay_ms"], exception_predicate=functions.is_connection_error
    )
    function = functions.AddAsynchronously(settings["amount"], settings["fails_each"])
    return wait(
        inputs[0],
        function,
        timeout=settings["timeout_ms"],
        async_retry_strategy=retries,
        capacity=settings["capacity"],
    )


def _emit_and_change(_: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    form, copies = node.settings["form"], node.settings["copies"]
    return (
        inputs[0].map(EmitAndChangeLater(form)) if copies is None else inputs[0].flat_map(EmitAndChange(form, copies))
    )


def _late(environment: StreamExecutionEnvironment, node: Node, inputs: list[Any]) -> Any:
    return inputs[0].get_side_output(functions.LATE)


_KINDS: dict[str, Callable[[StreamExecutionEnvironment, Node, list[Any]], Any]] = {
    "source": _source,
    "map": _add,
    "lambda": lambda _, node, inputs: inputs[0].map(lambda value: value),
    "rekey": lambda _, node, inputs: inputs[0].map(functions.Rekey(node.settings["keys"])),
    "plain": lambda _, node, inputs: inputs[0].map(functions.Plain()),
    "raise": lambda _, node, inputs: inputs[0].map(functions.Raise(node.settings["on"])),
    "filter": lambda _, node, inputs: inputs[0].filter(functions.Drop(node.settings["divisor"])),
    "flat_map": lambda _, node, inputs: inputs[0].flat_map(functions.Explode(node.settings["most"])),
    "split": lambda _, node, inputs: inputs[0].process(functions.Split()),
    "side": lambda _, node, inputs: inputs[0].get_side_output(functions.SIDE),
    "late": _late,
    "assign": lambda _, node, inputs: inputs[0].assign_timestamps_and_watermarks(strategy_of(node.settings)),
    "union": lambda _, node, inputs: inputs[0].union(*inputs[1:]),
    "connect": lambda _, node, inputs: inputs[0].connect(inputs[1]).map(functions.CoAdd(node.settings["amounts"])),
    "co_echo": lambda _, node, inputs: (
        inputs[0].connect(inputs[1]).process(functions.CoEcho(node.settings["copies"], node.settings["amounts"]))
    ),
    "interval_join": _interval_join,
    "window_join": _window_join,
    "rules": lambda _, node, inputs: (
        inputs[0].connect(inputs[1].broadcast(functions.RULES)).process(functions.TotalWithRules())
    ),
    "partition": _partition,
    "key_by": lambda _, node, inputs: inputs[0].key_by(key_of),
    "reduce": _reduce,
    "async_add": _add_asynchronously,
    "emit_and_change": _emit_and_change,
    "read_and_change": lambda _, node, inputs: inputs[0].map(ReadAndChange()),
    "echo": lambda _, node, inputs: inputs[0].process(functions.Echo(node.settings["copies"])),
    "gather": lambda _, node, inputs: inputs[0].process(functions.Gather()),
    "alarms": lambda _, node, inputs: inputs[0].process(
        functions.Alarms(node.settings["delay_ms"], node.settings["past"], node.settings["copies"])
    ),
    "window": _window,
    "loop": lambda _, node, inputs: build_loop(node, inputs[0]),
    "turns": lambda _, node, inputs: inputs[0].get_side_output(TURNS),
    "collect": lambda _, node, inputs: inputs[0].print(),
    "write": lambda _, node, inputs: inputs[0].sink_to(RecordingSink(f"n{node.id}")),
}
