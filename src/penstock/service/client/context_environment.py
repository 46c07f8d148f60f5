"""The defaults of environments in a program that another program runs, such as `penstock run`.

A job's script creates its environment itself, with `StreamExecutionEnvironment.get_execution_environment()`. The
program that runs the script cannot pass anything to that call; it sets a context around the script instead. Flink:
StreamContextEnvironment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from penstock.common.configuration import Configuration
from penstock.service.client.executor import PipelineExecutor


class ContextEnvironment(NamedTuple):
    """Defaults of each environment that the program creates. Settings of the program itself take precedence."""

    configuration: Configuration
    executor: PipelineExecutor | None = None
    """The executor that runs the jobs; None: the one that `execution.target` names."""


_context = ContextEnvironment(Configuration())


def context_environment() -> ContextEnvironment:
    """Return the context of the running program; an empty one if none is set."""
    return _context


@contextmanager
def as_context(context: ContextEnvironment) -> Iterator[None]:
    """Make `context` the context of all threads of this process, until the block ends."""
    global _context
    before, _context = _context, context
    try:
        yield
    finally:
        _context = before
