"""Builds the transformations of a plan, node by node from its sinks on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from penstock.common.config_options import ConfigOption
from penstock.common.config_values import parse_duration
from penstock.common.job_client import JobClient
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.transformations import (
    DeployedTransformation,
    OperatorTransformation,
    PartitionTransformation,
    Transformation,
)
from penstock.engine.runtime.network.partitioners import GlobalPartitioner, HashPartitioner, Partitioner
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.execution.distributions import Distributions, distributions_of
from penstock.table.execution.registry import translators
from penstock.table.functions.errors import FunctionError
from penstock.table.logical_types import LogicalType
from penstock.table.operators.keyed.table_keys import selector_of
from penstock.table.operators.matching.scalar_expressions import ScalarExpression
from penstock.table.operators.rows.python_calls import PythonCall
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns, table_columns
from penstock.table.planner.compiled_plan import CompiledPlan
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.nodes.base import ExecNode
from penstock.table.planner.rex_nodes import AnyRexNode
from penstock.table.planner.secret_options import SecretOptions
from penstock.table.query_options import DEFAULT_PARALLELISM, ZONE, value_of

T = TypeVar("T")
_WATERMARK_INTERVAL_MS = 200
_CURRENT_WATERMARK = '"$CURRENT_WATERMARK$1"'


class Program(Protocol):
    """The program to which the transformations belong: a StreamExecutionEnvironment."""

    def next_id(self) -> int:
        """Return the id of a new transformation."""

    def get_parallelism(self) -> int:
        """Return the default number of subtasks of operators."""

    def add_end(self, transformation: Transformation, results: ResultSink | None = None) -> None:
        """Add the end of a stream. `results` receives the values that it sends to the program's process."""

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the job."""


class Translation:
    """The transformations of one plan.

    `options`: those of the table environment. `functions`: the user's, also those that give rows, by the names that
    plans have, in lower case. `collectors`: what receives the rows of sinks that the program reads itself, by the
    identifier of their table. `returned`: the identifier of the sink whose rows are returned as a stream, `result`.
    `uid_prefix`: what the uids of operators begin with.
    """

    def __init__(
        self,
        plan: CompiledPlan,
        program: Program,
        *,
        options: Mapping[str, str],
        secrets: SecretOptions,
        functions: Mapping[str, PythonCall] | None = None,
        collectors: Mapping[str, ResultSink] | None = None,
        returned: str | None = None,
        uid_prefix: str = "",
        watermark_interval_ms: int = _WATERMARK_INTERVAL_MS,
    ) -> None:
        self.plan = plan
        self.program = program
        self.options = options
        self.secrets = secrets
        self.collectors = collectors or {}
        self.returned = returned
        self.result: Transformation | None = None
        self.parallelism = _parallelism(options)
        """The parallelism of operators that nothing else tells one; None: that of the program."""
        self._uid_prefix = uid_prefix
        self.watermark_interval_ms = watermark_interval_ms
        self.functions = functions or {}
        self._current = ""
        """The description of the node that is being translated."""
        self._done: dict[int, Transformation] = {}
        self._columns: dict[int, TableColumns] = {}
        self._distributions: dict[int, Distributions] = {}

    def run(self) -> None:
        """Add all sinks of the plan to the program.

        Raises UnsupportedPlanError, which names the node and shows its part of the query, before anything is added.
        """
        self._check()
        for sink in self.plan.sinks:
            self._translated(sink)

    def columns(self, node: ExecNode) -> TableColumns:
        """Return the columns of a node's rows."""
        return self._columns.get(node.id) or table_columns(node.output_type.logical)

    def gives(self, node: ExecNode, columns: TableColumns) -> None:
        """Note that a node gives other columns than the plan says: rows without fields that nothing reads."""
        self._columns[node.id] = columns

    def input(self, node: ExecNode, index: int = 0) -> TableColumns:
        """Return the columns of the rows that a node receives."""
        return self.columns(self.plan.inputs_of(node)[index])

    def expressions(self, *expressions: AnyRexNode) -> RowExpressions:
        """Return expressions of a node as operators have them. Raises UnsupportedPlanError for unknown functions."""
        return RowExpressions(expressions, zone=self.zone, functions=self.functions, sql=self._current)

    def condition(self, expression: AnyRexNode | None) -> RowExpressions | None:
        """Return a condition of a node as operators have it, or None. Raises what `expressions` does."""
        return None if expression is None else self.expressions(expression)

    def scalar(self, expression: AnyRexNode, types: Sequence[LogicalType]) -> ScalarExpression:
        """Return an expression over the values of one row. Raises what `expressions` does."""
        return ScalarExpression(expression, types, zone=self.zone, functions=self.functions, sql=self._current)

    def operator(
        self,
        node: ExecNode,
        operator: Operator,
        inputs: Sequence[Transformation],
        *,
        role: str = "",
        is_sink: bool = False,
    ) -> OperatorTransformation:
        """Add an operator of a node. `role`: what it does there, if the node has several operators."""
        made = OperatorTransformation(
            id=self.program.next_id(),
            name=operator.name,
            inputs=inputs,
            operator=operator,
            is_sink=is_sink,
            parallelism=self.parallelism,
        )
        self.name(made, node, role)
        if inputs and all(map(_is_single, inputs)):
            made.parallelism = 1
            made.parallelism_fixed = "its rows go to one subtask"
        elif len(inputs) == 1 and isinstance(inputs[0], DeployedTransformation):
            # As in Flink, up to the next exchange: another parallelism would change the order of rows.
            made.parallelism = inputs[0].parallelism
        return made

    def name(self, made: DeployedTransformation, node: ExecNode, role: str = "") -> None:
        """Give an operator the uid by which savepoints know it: the node's id and name, as in the plan."""
        made.uid = f"{self._uid_prefix}{node.id}_{_kind(node)}" + (f"_{role}" if role else "")
        made.description = node.description

    def is_distributed(self, node: ExecNode, keys: tuple[int, ...]) -> bool:
        """Return whether the rows that a node receives are where their key is: an exchange by it changes nothing."""
        (origin,) = self.plan.inputs_of(node)
        return keys in self._distributions[origin.id]

    def hashed(self, stream: Transformation, columns: TableColumns, keys: Sequence[int]) -> Transformation:
        """Distribute rows by key; without a key, send all to one subtask."""
        partitioner: Partitioner = (
            HashPartitioner(selector_of([columns.names[key] for key in keys])) if keys else GlobalPartitioner()
        )
        return PartitionTransformation(self.program.next_id(), stream, partitioner)

    def ttl_ms(self, node: ExecNode, index: int = 0) -> int | None:
        """Return how long the state of a node is kept, by the state's index; None: for ever."""
        found = next((state.ttl for state in node.state or () if state.index == index), "0 ms")
        return parse_duration(found) or None

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return value_of(self.options, ZONE)

    @property
    def reads_watermark(self) -> bool:
        """Whether an expression of the query reads the watermark."""
        return _CURRENT_WATERMARK in self.plan.text

    def window_zone(self, time: LogicalType) -> str | None:
        """Return the zone in whose local times windows begin and end; None: in times as they are."""
        zone = self.zone
        return None if time.root != "TIMESTAMP_LTZ" or zone in ("UTC", "Z", "Etc/UTC", "GMT") else zone

    def unsupported(self, what: str) -> UnsupportedPlanError:
        """Return the error of something that the current node asks for."""
        return UnsupportedPlanError(what)

    def _check(self) -> None:
        known = translators()
        for node in self.plan.nodes.values():
            if type(node) not in known:
                instead = _INSTEAD.get(_kind(node), "Write the query without it")
                raise UnsupportedPlanError(f"{_shown(node)} can't be executed yet. {instead}")

    def _translated(self, node: ExecNode) -> Transformation:
        if node.id not in self._done:
            origins = self.plan.inputs_of(node)
            inputs = [self._translated(one) for one in origins]
            of_inputs = [self._distributions[one.id] for one in origins]
            self._distributions[node.id] = distributions_of(node, of_inputs, origins)
            self._current = node.description
            try:
                self._done[node.id] = translators()[type(node)](self, node, inputs)
            except (UnsupportedPlanError, FunctionError) as error:
                raise UnsupportedPlanError(f"{_shown(node)}: {error}") from None
        return self._done[node.id]


def _parallelism(options: Mapping[str, str]) -> int | None:
    """Return the parallelism that an option gives operators; None: none. The planner has checked the number."""
    found = value_of(options, DEFAULT_PARALLELISM)
    return found if found > 0 else None


def _is_single(stream: Transformation) -> bool:
    return isinstance(stream, PartitionTransformation) and isinstance(stream.partitioner, GlobalPartitioner)


_INSTEAD = {
    "over-aggregate": "Of OVER there is ROW_NUMBER() with a condition on it in the outer query, WHERE n <= 3, or in "
    "QUALIFY"
}
"""Kinds of nodes -> what queries can have instead."""


def _kind(node: ExecNode) -> str:
    return str(node.__struct_config__.tag).rpartition("_")[0].removeprefix("stream-exec-")


def _shown(node: ExecNode) -> str:
    return f"the node {_kind(node)!r} of the plan ({node.description})"


def setting(node: ExecNode, wanted: ConfigOption[T]) -> T:
    """Return an option that the node depends on, as it was when it was planned. Raises SqlError."""
    return value_of(node.configuration, wanted)
