"""Explain how a plan is executed: the part of EXPLAIN below Flink's text.

== Execution ==
1 with 2 subtasks
  bids            gives columns
  Scan            columns
2 with 2 subtasks, from 1 by HASH [auction]
  GroupAggregate  columns, state groupAggregateState
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.common.configuration import Configuration
from penstock.common.functions.field_key import FieldKey
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.engine.jobmaster.results.result_sinks import CollectedResults
from penstock.engine.plan.job_graph import JobEdge, JobGraph
from penstock.engine.plan.stream_graph import StreamNode
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.network.partitioners import HashPartitioner
from penstock.service.client.plan_executor import PlanExecutor
from penstock.table.connectors.table_options import CONNECTOR
from penstock.table.execution.translation import Translation
from penstock.table.operators.rows.python_calls import PythonCall
from penstock.table.planner.compiled_plan import CompiledPlan
from penstock.table.planner.errors import SqlError, UnsupportedPlanError
from penstock.table.planner.nodes.base import ExecNode
from penstock.table.planner.secret_options import SecretOptions

TITLE = "== Execution =="
_RESULT = "penstock-result"
"""The connector of the planner's tables for rows of queries: java/Environment.java."""


def explained(
    plan: CompiledPlan,
    configuration: Configuration,
    *,
    options: Mapping[str, str],
    secrets: SecretOptions,
    functions: Mapping[str, PythonCall] | None = None,
) -> str:
    """Return the operators of a plan by task, with exchanges, kinds of chunks and state, or why it can't be executed.

    `configuration`: that of the job; `options`: those of the table environment; `functions`: those of the program.
    """
    executor = PlanExecutor()
    program = StreamExecutionEnvironment(configuration, executor=executor)
    # Sinks of queries, whose rows the program reads.
    collectors = {
        table.identifier: CollectedResults()
        for table in (sink.dynamic_table_sink.table for sink in plan.sinks)
        if table.resolved_table is not None and table.resolved_table.options.get(CONNECTOR) == _RESULT
    }
    try:
        Translation(plan, program, options=options, secrets=secrets, functions=functions, collectors=collectors).run()
        program.execute_async()
    except (SqlError, UnsupportedPlanError) as error:
        return f"{TITLE}\nThis can't be executed: {error}\n"
    (graph,) = executor.graphs
    return "\n".join([TITLE, *_lines(plan, graph), ""])


def _lines(plan: CompiledPlan, graph: JobGraph) -> Iterator[str]:
    names = [node.name for vertex in graph.vertices for node in vertex.nodes]
    width = min(max(map(len, names)), 60)
    for vertex in graph.vertices:
        inputs = [edge for edge in graph.edges if edge.target == vertex.id]
        comes = "".join(f", from {edge.source + 1} by {_exchange(edge)}" for edge in inputs)
        yield f"{vertex.id + 1} with {vertex.parallelism} subtask{'s' * (vertex.parallelism != 1)}{comes}"
        for node in vertex.nodes:
            yield f"  {node.name:{width}}  {', '.join(_remarks(plan, node))}".rstrip()


def _exchange(edge: JobEdge) -> str:
    partitioner = edge.stream_edge.partitioner
    key = getattr(partitioner, "key_selector", None) if isinstance(partitioner, HashPartitioner) else None
    return f"{edge.partitioner} [{', '.join(key.fields)}]" if isinstance(key, FieldKey) else edge.partitioner


def _remarks(plan: CompiledPlan, node: StreamNode) -> Iterator[str]:
    operator = node.operator
    if node.is_conversion:
        yield f"{_kind(operator.takes)} become {_kind(operator.gives)}"
    elif operator.source is not None:
        yield f"gives {_kind(operator.gives)}"
    else:
        yield _kind(operator.takes)
    planned = _node_of(plan, node)
    if operator.is_keyed and planned is not None:
        yield _state(planned)


def _kind(kind: ChunkKind) -> str:
    return "columns" if kind is ChunkKind.COLUMNS else "rows"


def _node_of(plan: CompiledPlan, node: StreamNode) -> ExecNode | None:
    id = node.uid.partition("_")[0]
    return plan.nodes.get(int(id)) if id.isdecimal() else None


def _state(node: ExecNode) -> str:
    states = [one.name + ("" if one.ttl.startswith("0 ") else f" for {one.ttl}") for one in node.state or ()]
    return f"state {' and '.join(states)}" if states else "state"
