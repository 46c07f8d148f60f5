"""Flink's table test programs: tables with rows, statements, and the changelog that sinks get."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy
import pyarrow as pa
from tests.table import flink_cases
from tests.table.flink_cases import cases_of
from tests.table.halves_simulation import HalvesSimulation, halves
from tests.table.halves_source import HalvesSource
from tests.table.in_process import InProcess
from tests.table.row_texts import parse_row, trimmed

from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.jobmaster.checkpoint_vertices import vertex_of_sinks
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator import Circumstances, Simulation
from penstock.service.client.plan_executor import PlanExecutor
from penstock.table import StreamTableEnvironment
from penstock.table.connectors.lookup import Found, LookupRequest, TableLookup
from penstock.table.connectors.table_connector import (
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
    register_connector,
)
from penstock.table.execution.plan_of_job import plan_of_checkpoint
from penstock.table.execution.translation import Translation
from penstock.table.logical_types import LogicalType
from penstock.table.operators.table_columns import KIND, TableColumns
from penstock.table.planner.compiled_plan import CompiledPlan, read_plan
from penstock.table.planner.secret_options import SecretOptions
from penstock.table.row_text import RowText

PROGRAMS = cases_of(flink_cases.PROGRAMS)
TIME = Circumstances(jump_rate=0.0, start_ms=1_767_225_600_000)
"""Rows that follow each other are in one window of processing time. The clock shows a year of this century."""


@dataclass
class Outcome:
    """What a program gave. `error`: why it has no result. `nodes`: the kinds of nodes of its plans."""

    error: str = ""
    is_exact: bool = False
    """Whether sinks got the changes that Flink's get, in any order."""
    is_final: bool = False
    """Whether the tables that they make are the same."""
    difference: str = ""
    nodes: set[str] = field(default_factory=set)
    has_several_inputs: bool = False
    """Whether a node has several inputs, whose rows have no common order."""
    has_timers: bool = False
    """Whether a node works by processing time."""


class Values(TableConnector):
    """The connector `values` of Flink's tests: sources have rows, sinks remember what they get."""

    sink_abilities = frozenset({"WritingMetadata", "Partitioning", "Overwrite"})

    def __init__(self) -> None:
        self.sources: dict[str, tuple[list[str], list[str]]] = {}
        """The rows of both halves of each table."""
        self.sinks: dict[str, Received] = {}

    def scan(self, request: ScanRequest) -> TableScan:
        """Read the rows of a table."""
        resolved = request.table.resolved_table
        assert resolved is not None
        columns = {
            column.name: column.data_type.logical
            for column in resolved.schema.columns
            if column.kind == "PHYSICAL" and column.data_type is not None
        }
        before, after = self.sources[_name(request.table.identifier)]
        physical = list(columns.values())
        metadata = list(_metadata(request.options.get("readable-metadata", "")))
        kinds, values = _parsed([*before, *after], [*physical, *(kind for _, kind in metadata)])
        names = [*columns, *(f"$metadata_{name}" for name, _ in metadata)]
        wanted = list(request.whole) + [pa.field(f"$metadata_{key}", kind) for key, kind in request.metadata.items()]
        arrays = [pa.array([row[names.index(one.name)] for row in values], one.type) for one in wanted]
        schema = pa.schema([*wanted, pa.field(KIND, pa.uint8())])
        table = pa.Table.from_arrays([*arrays, pa.array(kinds, pa.uint8())], schema=schema)
        return TableScan(
            HalvesSource(table, len(before), is_paced=len(self.sources) > 1),
            TableColumns(schema),
            parallelism=1,
            has_watermarks=True,
        )

    def lookup(self, request: LookupRequest) -> TableLookup:
        """Look up the rows of a table: those of the first half, and in the second half of other tables all."""
        resolved = request.table.resolved_table
        assert resolved is not None
        columns = {
            column.name: column.data_type.logical
            for column in resolved.schema.columns
            if column.kind == "PHYSICAL" and column.data_type is not None
        }
        key = resolved.schema.primary_key
        unique = [[*columns].index(name) for name in (() if key is None else key.columns)]
        halves = []
        for rows in self.sources[_name(request.table.identifier)]:
            _, values = _parsed(rows, list(columns.values()))
            halves.append([dict(zip(columns, row, strict=True)) for row in values])
        before = {tuple(row[[*columns][at]] for at in unique) or place: row for place, row in enumerate(halves[0])}
        after = {tuple(row[[*columns][at]] for at in unique) or -1 - place: row for place, row in enumerate(halves[1])}
        now = ([*before.values()], [*{**before, **after}.values()])
        return ListedLookup(now, request.keys.names, request.columns.schema)

    def sink(self, request: SinkRequest) -> TableSink:
        """Remember the rows."""
        resolved = request.table.resolved_table
        assert resolved is not None
        key = resolved.schema.primary_key
        received = Received(request.row_type, () if key is None else key.columns)
        # A job that is restored continues with the one that is there.
        received = self.sinks.setdefault(_name(request.table.identifier), received)
        return TableSink(results=received, parallelism=1)


class ListedLookup(TableLookup):
    """Rows of both halves. Which half it is, a source tells."""

    def __init__(self, rows: tuple[list[Any], list[Any]], keys: Sequence[str], schema: pa.Schema) -> None:
        self._rows = rows
        self._keys = keys
        self._schema = schema

    def find(self, keys: pa.RecordBatch) -> Found:
        """Return the rows that have these keys."""
        rows = self._rows[1 if HalvesSource.is_second else 0]
        found = [
            (place, row)
            for place, key in enumerate(zip(*(column.to_pylist() for column in keys.columns), strict=True))
            for row in rows
            if tuple(row[name] for name in self._keys) == key
        ]
        table = pa.RecordBatch.from_pylist([row for _, row in found], schema=self._schema)
        return Found(numpy.array([place for place, _ in found], numpy.int64), table)


class Received(ResultSink):
    """The rows that a sink got, as text."""

    exactly_once = True

    def __init__(self, row_type: LogicalType, key: tuple[str, ...]) -> None:
        self._text = RowText(row_type)
        self._key = [row_type.names.index(name) for name in key]
        self.rows: list[str] = []

    def accept(self, subtask: int, values: list[Row]) -> None:
        """Add rows."""
        self.rows += map(self._text, values)

    def table(self, changes: list[str]) -> Counter[str]:
        """Return the rows of the table that changes make."""
        types = list(self._text.row_type.children)
        found: Counter[str] = Counter()
        by_key: dict[str, str] = {}
        for change in changes:
            kind, content = change[:2], change[2:]
            if self._key:
                values = parse_row(change, types)[1]
                key = str([values[place] for place in self._key])
                if kind in ("+I", "+U"):
                    by_key[key] = content
                elif kind == "-D":
                    by_key.pop(key, None)
            else:
                found[content] += 1 if kind in ("+I", "+U") else -1
        return Counter(by_key.values()) if self._key else Counter({row: n for row, n in found.items() if n})


def programs() -> Iterator[dict[str, Any]]:
    """Yield all programs."""
    with gzip.open(PROGRAMS, "rt") as lines:
        yield from map(json.loads, lines)


def is_in_scope(program: dict[str, Any]) -> bool:
    """Return whether a program has SQL, expectations, and neither a function in Java nor another language."""
    kinds = {one["kind"] for one in program["setup"]}
    is_sql = all(one["kind"] in ("SQL", "STATEMENT_SET") for one in program["run"])
    has_sinks = any(one["kind"].startswith("SINK_WITH_") for one in program["setup"])
    return is_sql and has_sinks and not kinds & {"FUNCTION", "MODEL", "TEMPORAL_FUNCTION", "SINK_WITHOUT_DATA"}


class BetweenHalves(InProcess):
    """Stops each job with a savepoint between the halves of its rows, and starts it with the plan in the savepoint."""

    def __init__(self, parallelism: int | None) -> None:
        """`parallelism`: the one after the savepoint; None: the job runs without one."""
        super().__init__(circumstances=TIME)
        self._parallelism = parallelism
        self.options: Mapping[str, str] = {}
        """The options of the table environment."""
        self.not_restored = 0
        """How many jobs with halves were not restored."""

    def simulation(self, graph: JobGraph) -> Simulation:
        """Return the simulation of a job, which is restored with the other parallelism."""
        if self._parallelism is None:
            return super().simulation(graph)
        self.not_restored += halves(graph) > 0
        return HalvesSimulation(graph, Random(self.seed), self.circumstances, partial(self._restored, graph))

    def _restored(self, before: JobGraph, manifest: Manifest) -> JobGraph:
        self.not_restored -= 1
        plan = plan_of_checkpoint(manifest)
        assert plan is not None, "the savepoint has no plan"
        graph = self._graph(plan, skipped=0)
        # Results have the number of their sink, which follows from what the program has run before.
        skipped = min(vertex_of_sinks(before)) - min(vertex_of_sinks(graph))
        return self._graph(plan, skipped) if skipped else graph

    def _graph(self, plan: CompiledPlan, skipped: int) -> JobGraph:
        planned = PlanExecutor()
        env = StreamExecutionEnvironment(executor=planned)
        env.set_parallelism(self._parallelism or 1)
        for _ in range(skipped):
            env.next_id()
        Translation(plan, env, options=self.options, secrets=SecretOptions()).run()
        env.execute_async()
        return planned.graphs[0]


def run(program: dict[str, Any], parallelism: int = 2, restored: int | None = 2, *, plan: str | None = None) -> Outcome:
    """Run a program over both halves of the rows of its tables, and compare.

    `restored`: its parallelism after a savepoint between the halves; None: it runs over all rows at once. `plan`: the
    one that Flink's test runs it with; None: its statements are planned.
    """
    outcome = Outcome()
    executor = BetweenHalves(restored)
    try:
        values = _execute(program, outcome, parallelism, executor, plan)
        if executor.not_restored:
            outcome.error = "no savepoint was taken between the halves"
    except Exception as error:
        outcome.error = f"{type(error).__name__}: {error}"
        return outcome
    _compare(program, values, outcome)
    return outcome


def _execute(
    program: dict[str, Any], outcome: Outcome, parallelism: int, executor: BetweenHalves, plan: str | None
) -> Values:
    values = Values()
    register_connector("values", values)
    HalvesSource.is_second = False
    env = StreamExecutionEnvironment(executor=executor)
    env.set_parallelism(parallelism)
    tables = StreamTableEnvironment.create(env)
    for one in program["setup"]:
        if one["kind"] == "CONFIG":
            tables.get_config().set(one["option"], one["value"])
    for one in program["setup"]:
        if one["kind"] == "SQL":
            tables.execute_sql(one["sql"])
        elif "schema" in one:
            tables.execute_sql(_create_table(one))
            values.sources[one["name"]] = (one.get("before", []), one.get("after", []))
    executor.options = tables.get_config().to_dict()
    if plan is not None:
        _execute_plan(tables, plan, outcome)
    for one in program["run"] if plan is None else ():
        if one["kind"] == "STATEMENT_SET":
            statements = tables.create_statement_set()
            for sql in one["sqls"]:
                statements.add_insert_sql(sql)
            statements.execute()
        else:
            _note_nodes(tables, one["sql"], outcome)
            tables.execute_sql(one["sql"])
        if executor.error is not None:
            break
    if executor.error is not None:
        raise executor.error
    return values


def _execute_plan(tables: StreamTableEnvironment, plan: str, outcome: Outcome) -> None:
    _note(read_plan(plan), outcome)
    with TemporaryDirectory() as folder:
        file = Path(folder, "plan.json")
        file.write_text(plan, encoding="utf-8")
        tables.execute_sql(f"EXECUTE PLAN '{file}'")


def _note_nodes(tables: StreamTableEnvironment, sql: str, outcome: Outcome) -> None:
    _note(tables._synchronized().compile_plan([sql]), outcome)


def _note(plan: CompiledPlan, outcome: Outcome) -> None:
    outcome.has_timers |= "PROCTIME" in plan.text
    outcome.nodes |= {node.name for node in plan.nodes.values()}
    outcome.has_several_inputs |= any(len(inputs) > 1 for inputs in plan.inputs.values())


def _compare(program: dict[str, Any], values: Values, outcome: Outcome) -> None:
    outcome.is_exact = outcome.is_final = True
    for one in program["setup"]:
        if not one["kind"].startswith("SINK_WITH_"):
            continue
        received = values.sinks.get(one["name"])
        expected = [*one["expectBefore"], *one["expectAfter"]]
        if received is None:
            outcome.error = f"nothing was written into {one['name']}"
            return
        # Flink's tests stop a job that works by processing time once its sink has what they expect.
        rows = received.rows[: len(expected)] if outcome.has_timers else received.rows
        if Counter(rows) != Counter(expected):
            outcome.is_exact = False
            missing, more = Counter(expected) - Counter(rows), Counter(rows) - Counter(expected)
            outcome.difference = f"missing {sorted(missing.elements())[:6]}, more {sorted(more.elements())[:6]}"
        if received.table(rows) != received.table(expected):
            outcome.is_final = False


def _create_table(one: dict[str, Any]) -> str:
    options = {"connector": "values", **one["options"]}
    if one["kind"] == "SOURCE_WITH_DATA" and any(part.upper().startswith("WATERMARK FOR") for part in one["schema"]):
        # As Flink's tests of semantics: each row emits its watermark.
        options |= {"scan.watermark.emit.strategy": "on-event"}
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    partitioned = f" PARTITIONED BY ({', '.join(one['partition'])})" if one["partition"] else ""
    return f"CREATE TABLE `{one['name']}` ({', '.join(one['schema'])}){partitioned} WITH ({shown})"


def _parsed(rows: list[str], types: list[LogicalType]) -> tuple[list[int], list[list[Any]]]:
    parsed = [parse_row(row, types) for row in trimmed(rows, len(types))]
    return [kind for kind, _ in parsed], [values for _, values in parsed]


def _metadata(text: str) -> Iterator[tuple[str, LogicalType]]:
    from penstock.table.logical_types import parse

    for part in filter(None, text.split(",")):
        name, _, kind = part.partition(":")
        yield name, parse(kind.upper())


def _name(identifier: str) -> str:
    return identifier.rpartition(".")[2].strip("`")
