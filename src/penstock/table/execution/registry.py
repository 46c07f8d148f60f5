"""Which function translates which node. To add a node, write a file in `nodes/` with a function for its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from penstock.engine.plan.transformations import Transformation
from penstock.table.planner.nodes.base import ExecNode

Translator = Callable[[Any, Any, Sequence[Transformation]], Transformation]
"""Takes the Translation, the node and its inputs, and returns the stream of its rows.

Raises UnsupportedPlanError for what the node asks for and is not supported; the message gets the node's name and SQL.
"""

_FILES = (
    "calc",
    "changelog",
    "correlate",
    "distribution",
    "expand",
    "group_aggregate",
    "interval_join",
    "join",
    "lookup_join",
    "match",
    "multi_join",
    "mini_batch",
    "rank",
    "scan",
    "sink",
    "sort",
    "temporal_join",
    "values",
    "watermark_assigner",
    "window_aggregate",
    "window_rows",
)
"""The modules of `nodes/`."""
_translators: dict[type[ExecNode], Translator] = {}


def translates(*nodes: type[ExecNode]) -> Callable[[Translator], Translator]:
    """Register the function that translates these nodes."""

    def register(function: Translator) -> Translator:
        for node in nodes:
            if node in _translators:
                raise ValueError(f"{node.__name__} is translated twice")
            _translators[node] = function
        return function

    return register


@cache
def translators() -> Mapping[type[ExecNode], Translator]:
    """Return all translators by the class of the node. The first call imports their modules."""
    for name in _FILES:
        import_module(f"penstock.table.execution.nodes.{name}")
    return _translators
