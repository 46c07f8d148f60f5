"""Whether what a job reads and writes is there and as it should be.

Asked where the job is controlled, and before anything runs. Not where the job is declared: a program that is only
explained, or submits its job to a cluster, may not reach the servers.
"""

from __future__ import annotations

from penstock.common.errors import PenstockError
from penstock.plan.job_graph import JobGraph
from penstock.runtime.operators.sink import SinkOperator
from penstock.runtime.operators.source import SourceOperator


def check_connectors(graph: JobGraph) -> None:
    """Raises what a source or a sink finds wrong, with the operator's name: a missing path, a server that is away."""
    for vertex in graph.vertices:
        for node in vertex.nodes:
            operator = node.operator
            try:
                if isinstance(operator, SourceOperator):
                    operator.source.validate()
                elif isinstance(operator, SinkOperator):
                    operator.sink.validate()
            except PenstockError as error:
                error.args = (f"operator '{node.name}': {error}", *error.args[1:])
                raise
