"""The ends of streams: results that are printed, written by sinks, or collected."""

from __future__ import annotations

from typing import Any, Protocol

from penstock.api.sink import Sink
from penstock.common.job_client import JobClient
from penstock.common.types.declared_text import text_in_print
from penstock.common.types.declared_values import collected_converter
from penstock.datastream.collected import CloseableIterator
from penstock.datastream.print_later import PrintLater
from penstock.engine.jobmaster.results.result_sinks import CollectedResults, CommittedResults, ResultSink
from penstock.engine.plan.transformations import OperatorTransformation, Transformation
from penstock.engine.runtime.operators.sink import CollectOperator, SinkOperator


class Program(Protocol):
    """The program to which streams belong."""

    def next_id(self) -> int:
        """Return the id of a new transformation."""

    def get_parallelism(self) -> int:
        """Return the default number of subtasks of operators."""

    def add_end(self, transformation: Transformation, results: ResultSink | None = None) -> None:
        """Add the end of a stream. `results` receives the values that it sends to the program's process."""

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the job."""


def printed(program: Program, input: Transformation, identifier: str | None) -> Transformation:
    """Print the values of `input` in the program's process."""
    id = program.next_id()
    transformation = OperatorTransformation(
        id, "Print to Std. Out", [input], CollectOperator("Print to Std. Out", id), is_sink=True
    )
    results = PrintLater(
        lambda: transformation.parallelism or program.get_parallelism(),
        identifier,
        text_in_print(input.output_type),
    )
    program.add_end(transformation, results)
    return transformation


def written(program: Program, input: Transformation, sink: Sink[Any]) -> Transformation:
    """Write the values of `input` to a sink, whose committer runs in the program's process."""
    id = program.next_id()
    name = type(sink).__name__
    if input.output_type is not None:
        sink = sink.for_type(input.output_type)
    transformation = OperatorTransformation(id, name, [input], SinkOperator(name, sink, id), is_sink=True)
    committer = sink.create_committer()
    program.add_end(transformation, None if committer is None else CommittedResults(committer))
    return transformation


def collected(program: Program, input: Transformation, job_name: str | None) -> CloseableIterator[Any]:
    """Start the job, and iterate over the values of `input`."""
    id = program.next_id()
    transformation = OperatorTransformation(
        id, "Collect", [input], CollectOperator("Collect", id), parallelism=1, is_sink=True
    )
    transformation.is_nameless = True
    results = CollectedResults()
    program.add_end(transformation, results)
    convert = collected_converter(input.output_type)
    return CloseableIterator(results, program.execute_async(job_name), convert)
