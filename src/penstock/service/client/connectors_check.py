"""Whether what a job reads and writes is there and as it should be.

Asked where the job is controlled, and before anything runs. Not where the job is declared: a program that is only
explained, or submits its job to a cluster, may not reach the servers.
"""

from __future__ import annotations

import os
from typing import Any

from penstock.api.sink import Sink
from penstock.api.source import Source
from penstock.common.errors import PenstockError, ProgramError
from penstock.common.errors.user_traceback import user_traceback, without_our_frames
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.engine.runtime.operators.source import SourceOperator


def check_connectors(graph: JobGraph) -> None:
    """Raises what a source or a sink finds wrong, with the operator's name: a missing path, a server that is away.

    ProgramError for what is none of penstock's errors, with its traceback from the user's own code on.
    """
    for vertex in graph.vertices:
        for node in vertex.nodes:
            operator = node.operator
            try:
                if isinstance(operator, SourceOperator):
                    _ask(operator.source)
                elif isinstance(operator, SinkOperator):
                    _ask(operator.sink)
            except KeyboardInterrupt as error:
                error.add_note(f"while operator '{node.name}' was asked")
                raise
            except BaseException as error:
                if not _is_ours(error):
                    text = user_traceback(without_our_frames(error))
                    raise ProgramError(f"operator '{node.name}': {text}") from None
                # A connector may name itself, and operators without a name are named by their connectors.
                told = f"operator '{node.name}': {str(error).removeprefix(f'{node.name}: ')}"
                # It may be raised again: by another operator with the same source, or for another job.
                if not str(error).startswith("operator '"):
                    error.args = (told, *error.args[1:]) if len(error.args) == 1 else (told,)
                raise


def _ask(connector: Source[Any] | Sink[Any]) -> None:
    process = os.getpid()
    try:
        connector.validate()
    finally:
        if os.getpid() != process:
            # A fork of the connector's, which was not ended: it would run the job a second time.
            os._exit(1)


def _is_ours(error: BaseException) -> bool:
    """Those of users' own may say, and do, anything when they are asked for their text."""
    return isinstance(error, PenstockError) and type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
