"""What environments start from in a program that another program runs, such as `penstock run`.

A job's script makes its environment itself, by `StreamExecutionEnvironment.get_execution_environment()`. What runs the
script cannot hand anything to that call; it sets a context around the script instead. Flink: StreamContextEnvironment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from penstock.common.configuration import Configuration
from penstock.service.client.executor import PipelineExecutor


class ContextEnvironment(NamedTuple):
    """Defaults of each environment that a program makes. What the program sets itself takes precedence."""

    configuration: Configuration
    executor: PipelineExecutor | None = None
    """What runs the jobs; None: what `execution.target` names."""


_context = ContextEnvironment(Configuration())


def context_environment() -> ContextEnvironment:
    """The context of the program that is running; an empty one if nothing has set any."""
    return _context


@contextmanager
def as_context(context: ContextEnvironment) -> Iterator[None]:
    """Make `context` that of all threads of this process, until the block ends."""
    global _context
    before, _context = _context, context
    try:
        yield
    finally:
        _context = before
