"""Starts the job of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.common.configuration import options as options_of_jobs
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.errors import CheckpointError
from penstock.common.job_client import JobClient
from penstock.common.types import Row
from penstock.datastream.collected import CloseableIterator
from penstock.engine.jobmaster.results.result_sinks import CollectedResults, ResultSink
from penstock.engine.plan.transformations import Transformation
from penstock.service.client.start_point import restored_manifest
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.execution.plan_of_job import check_origin, packed_plan, restored_plan
from penstock.table.execution.row_values import row_reader
from penstock.table.execution.translation import Translation
from penstock.table.logical_types import BIGINT, LogicalType
from penstock.table.operators.rows.python_calls import PythonCall
from penstock.table.planner.compiled_plan import CompiledPlan
from penstock.table.planner.errors import SqlError
from penstock.table.planner.planner import Planner
from penstock.table.query_options import DML_SYNC, MINI_BATCH, MINI_BATCH_LATENCY, RUNTIME_MODE, ZONE, value_of
from penstock.table.table_config import TableConfig
from penstock.table.table_result import ResultKind, TableResult

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

_TIMEOUT_MS = 20
"""The timeout of buffers in the job of a statement. A row after a pause does not wait for it."""
_MINI_BATCH_TIMEOUT_MS = 100
"""The same with mini-batch: Flink's timeout; less if rows may not wait so long."""
_AFFECTED_UNKNOWN = -1
"""The number of rows that a streaming insertion says it has affected, as in Flink."""


def start(
    environment: StreamExecutionEnvironment,
    planner: Planner,
    *,
    plan: CompiledPlan,
    result_table: str | None,
    config: TableConfig,
    settings: EnvironmentSettings,
    functions: Mapping[str, PythonCall] | None = None,
) -> TableResult:
    """Start a job. `result_table`: of a query, the identifier of the sink whose rows the program reads.

    `functions`: those of the program. Raises UnsupportedPlanError before anything runs, and what
    `StreamExecutionEnvironment.execute` raises.
    """
    options = _checked(environment, config, settings)
    job_name = options.get("pipeline.name") or ("collect" if result_table is not None else _name(plan))
    target = options.get(options_of_jobs.TARGET.key) or environment.configuration_of_job().get(options_of_jobs.TARGET)
    if result_table is not None and target == "remote":
        raise SqlError(
            "a job in a cluster can't give rows of a query to this program: write INSERT INTO a table, such as one of "
            "the connector print, or execute the query without -m (execution.target: remote)"
        )
    results = CollectedResults()
    with environment.separate_job(), _options_of_job(environment, options):
        plan = _restored(environment, plan, job_name)
        # The plan of a checkpoint may have another name for the table of the query's rows.
        collectors = {} if result_table is None else {plan.sinks[0].dynamic_table_sink.table.identifier: results}
        _translation(environment, planner, plan=plan, options=options, functions=functions, collectors=collectors).run()
        packed = packed_plan(plan)
        environment.keep_plan(packed, partial(check_origin, packed))
        client = environment.execute_async(job_name)
    if result_table is None:
        return _result_of_insertions(plan, client, options)
    return _result_of_query(plan, client, results, options)


def _result_of_insertions(plan: CompiledPlan, client: JobClient, options: Mapping[str, str]) -> TableResult:
    names = _tables_written(plan)
    affected = [[_AFFECTED_UNKNOWN for _ in names]]
    kind = ResultKind.SUCCESS_WITH_CONTENT
    result = TableResult.of_rows(names, [BIGINT] * len(names), affected, kind, client=client)
    if value_of(options, DML_SYNC):
        result.wait()
    return result


def _result_of_query(
    plan: CompiledPlan, client: JobClient, results: CollectedResults, options: Mapping[str, str]
) -> TableResult:
    row_type = result_row(plan)
    rows = CloseableIterator[Row](results, client, row_reader(row_type))
    return TableResult(
        ResultKind.SUCCESS_WITH_CONTENT,
        row_type.names,
        row_type.children,
        lambda: rows,
        client=client,
        is_changelog=True,
        zone=value_of(options, ZONE),
    )


def attach(
    environment: StreamExecutionEnvironment,
    planner: Planner,
    *,
    plan: CompiledPlan,
    result_table: str | None,
    config: TableConfig,
    settings: EnvironmentSettings,
    functions: Mapping[str, PythonCall] | None = None,
) -> Transformation | None:
    """Add a plan to the program of an environment, whose `execute` runs it.

    Return the rows of a query, on columns; None for insertions. Raises UnsupportedPlanError.
    """
    options = _checked(environment, config, settings)
    environment.configure(_of_jobs(options))
    translation = _translation(
        environment,
        planner,
        plan=plan,
        options=options,
        functions=functions,
        returned=result_table,
        # Operators of several plans are in one job.
        uid_prefix=f"table-{environment.next_id()}_",
    )
    translation.run()
    return translation.result


def _checked(
    environment: StreamExecutionEnvironment, config: TableConfig, settings: EnvironmentSettings
) -> dict[str, str]:
    options = config.to_dict()
    _check_mode(settings, options)
    environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    return options


@contextmanager
def _options_of_job(environment: StreamExecutionEnvironment, options: Mapping[str, str]) -> Iterator[None]:
    """Give the options to one job: what is reset behind it has no effect on the next one."""
    configuration = environment.configuration_of_job()
    before = Configuration(configuration)
    try:
        environment.configure(_of_jobs(options))
        _enlarge_buffers(configuration, options)
        yield
    finally:
        for key in configuration.to_dict():
            configuration.remove_config(key)
        configuration.add_all(before)


def _enlarge_buffers(configuration: Configuration, options: Mapping[str, str]) -> None:
    """Let buffers of the job wait longer than those of a DataStream, unless a timeout is configured.

    A chunk costs the operators of SQL as much as hundreds of rows, and by the usual timeout a join gets few rows at a
    time: at 20,000 events/s Nexmark's q20 took both cores. With mini-batch a job waits for rows to save work.
    """
    timeout_ms = _mini_batch_timeout_ms(options) if value_of(options, MINI_BATCH) else _TIMEOUT_MS
    waits = timeout_ms > options_of_jobs.BUFFER_TIMEOUT.default
    if waits and not configuration.contains(options_of_jobs.BUFFER_TIMEOUT):
        configuration.set(options_of_jobs.BUFFER_TIMEOUT, timeout_ms)


def _mini_batch_timeout_ms(options: Mapping[str, str]) -> int:
    try:
        return min(_MINI_BATCH_TIMEOUT_MS, value_of(options, MINI_BATCH_LATENCY))
    except SqlError:
        # Java's form of a duration, PT2S, which the planner has read.
        return _MINI_BATCH_TIMEOUT_MS


def _translation(
    environment: StreamExecutionEnvironment,
    planner: Planner,
    *,
    plan: CompiledPlan,
    options: dict[str, str],
    functions: Mapping[str, PythonCall] | None,
    collectors: Mapping[str, ResultSink] | None = None,
    returned: str | None = None,
    uid_prefix: str = "",
) -> Translation:
    return Translation(
        plan,
        environment,
        options=options,
        secrets=planner.secrets,
        functions=functions,
        watermark_interval_ms=environment.get_config().get_auto_watermark_interval(),
        collectors=collectors,
        returned=returned,
        uid_prefix=uid_prefix,
    )


def result_row(plan: CompiledPlan) -> LogicalType:
    """Return the row of a query. Nodes of the plan may have other names: no projection only renames."""
    (sink,) = plan.sinks
    table = sink.dynamic_table_sink.table.resolved_table
    assert table is not None
    names = tuple(column.name for column in table.schema.columns)
    return replace(sink.output_type.logical, names=names)


def _restored(environment: StreamExecutionEnvironment, plan: CompiledPlan, job_name: str) -> CompiledPlan:
    """Return the plan to run with, if the job starts from a checkpoint: see plan_of_job.py."""
    configuration = environment.configuration_of_job()
    if configuration.get(options_of_jobs.TARGET) == "remote":
        # Only the cluster may see its checkpoints.
        try:
            manifest = restored_manifest(configuration, job_name)
        except CheckpointError:
            return plan
    else:
        manifest = restored_manifest(configuration, job_name)
    return restored_plan(plan, manifest, allow_non_restored=configuration.get(options_of_jobs.IGNORE_UNCLAIMED_STATE))


def _of_jobs(options: Mapping[str, str]) -> dict[str, str]:
    others = ("table.", "sql-client.", "python.", "execution.runtime-mode")
    return {key: value for key, value in options.items() if not key.startswith(others)}


def _check_mode(settings: EnvironmentSettings, options: dict[str, str]) -> None:
    is_batch = value_of(options, RUNTIME_MODE) == "BATCH"
    if is_batch or not settings.is_streaming_mode():
        raise SqlError(
            "queries in BATCH mode are not supported: use EnvironmentSettings.in_streaming_mode(), in which bounded "
            "tables are read to their end as well"
        )


def _name(plan: CompiledPlan) -> str:
    return f"insert-into_{','.join(_tables_written(plan))}"


def _tables_written(plan: CompiledPlan) -> list[str]:
    return [sink.dynamic_table_sink.table.identifier.replace("`", "") for sink in plan.sinks]
