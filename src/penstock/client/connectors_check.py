"""Whether what a job reads and writes is there and as it should be.

Asked where the job is controlled, and before anything runs. Not where the job is declared: a program that is only
explained, or submits its job to a cluster, may not reach the servers.
"""

from __future__ import annotations

from penstock.common.errors import PenstockError, ProgramError
from penstock.common.user_traceback import user_traceback, without_our_frames
from penstock.plan.job_graph import JobGraph
from penstock.runtime.operators.sink import SinkOperator
from penstock.runtime.operators.source import SourceOperator


def check_connectors(graph: JobGraph) -> None:
    """Raises what a source or a sink finds wrong, with the operator's name: a missing path, a server that is away.

    ProgramError for what is no PenstockError, with its traceback from the user's own code on.
    """
    for vertex in graph.vertices:
        for node in vertex.nodes:
            operator = node.operator
            try:
                if isinstance(operator, SourceOperator):
                    operator.source.validate()
                elif isinstance(operator, SinkOperator):
                    operator.sink.validate()
            except PenstockError as error:
                told = f"operator '{node.name}': {error}"
                # It may be raised again: by another operator with the same source, or for another job.
                if not str(error).startswith("operator '"):
                    error.args = (told, *error.args[1:]) if len(error.args) == 1 else (told,)
                raise
            except (Exception, SystemExit) as error:
                raise ProgramError(f"operator '{node.name}': {user_traceback(without_our_frames(error))}") from None
