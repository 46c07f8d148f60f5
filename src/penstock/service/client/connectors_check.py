"""Check that the sources and sinks of a job can reach what they read and write.

This runs where the job is controlled, before anything else of the job. It does not run where the job is declared: a
program that is only explained, or that submits its job to a cluster, may not reach the servers.
"""

from __future__ import annotations

import os
from typing import Any

from penstock.api.sink import Sink
from penstock.api.source import Source
from penstock.common.errors import PenstockError, ProgramError
from penstock.common.errors.user_traceback import user_traceback, without_our_frames
from penstock.engine.plan.job_graph import JobGraph


def check_connectors(graph: JobGraph) -> None:
    """Raise what a source or sink finds wrong, with the operator's name: a missing path, an unreachable server.

    Errors that are not penstock's become a ProgramError, with the traceback from the user's own code on.
    """
    for vertex in graph.vertices:
        for node in vertex.nodes:
            operator = node.operator
            try:
                if operator.source is not None:
                    _validate(operator.source)
                elif operator.sink is not None:
                    _validate(operator.sink)
            except KeyboardInterrupt as error:
                error.add_note(f"while operator '{node.name}' was checked")
                raise
            except BaseException as error:
                if not _is_ours(error):
                    text = user_traceback(without_our_frames(error))
                    raise ProgramError(f"operator '{node.name}': {text}") from None
                # A connector may name itself, and operators without a name are named after their connectors.
                message = f"operator '{node.name}': {str(error).removeprefix(f'{node.name}: ')}"
                # The same error may be raised again: by another operator with the same source, or for another job.
                if not str(error).startswith("operator '"):
                    error.args = (message, *error.args[1:]) if len(error.args) == 1 else (message,)
                raise


def _validate(connector: Source[Any] | Sink[Any]) -> None:
    process = os.getpid()
    try:
        connector.validate()
    finally:
        if os.getpid() != process:
            # A process forked by the connector must end here: it would run the job a second time.
            os._exit(1)


def _is_ours(error: BaseException) -> bool:
    """Return whether an error is penstock's own. The __str__ of a user's class may return, raise or do anything."""
    return isinstance(error, PenstockError) and type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
